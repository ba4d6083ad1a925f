"""Greedy least memory from the outputs backwards, on one device."""

from __future__ import annotations

import placewright._core as _core
from placewright.search.one_device import OneDeviceOrder

REVERSE_GREEDY = OneDeviceOrder(name="reverse-greedy", order=lambda problem: _core.reverse_greedy_order(problem.core))
