"""Least peak memory first on one device, as PyTorch Inductor's topological_sort_lpmf (torch/_inductor/memory.py)."""

from __future__ import annotations

import placewright._core as _core
from placewright.search.one_device import OneDeviceOrder

LPMF = OneDeviceOrder(name="lpmf", order=lambda problem: _core.lpmf_order(problem.core))
