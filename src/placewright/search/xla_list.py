"""Most bytes freed first on one device, as XLA's ListScheduler (hlo_memory_scheduler.cc)."""

from __future__ import annotations

import placewright._core as _core
from placewright.search.one_device import OneDeviceOrder

XLA_LIST = OneDeviceOrder(name="xla-list", order=lambda problem: _core.xla_list_order(problem.core))
