"""Depth-first post-order on one device, as XLA's DFSMemoryScheduler orders ops (hlo_memory_scheduler.cc)."""

from __future__ import annotations

import placewright._core as _core
from placewright.search.one_device import OneDeviceOrder

DFS = OneDeviceOrder(name="dfs", order=lambda problem: _core.dfs_order(problem.core))
