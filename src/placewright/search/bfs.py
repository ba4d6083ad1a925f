"""First in, first out on one device: ops in the sequence in which they become ready."""

from __future__ import annotations

import placewright._core as _core
from placewright.search.one_device import OneDeviceOrder

BFS = OneDeviceOrder(name="bfs", order=lambda problem: _core.bfs_order(problem.core))
