"""The best one device can do with the simple orders: the yardstick for using more than one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

from placewright.problem import Problem
from placewright.search.constructive.baseline import Baseline, Candidate
from placewright.search.constructive.one_device import ORDERS, one_device_candidates


@dataclass(frozen=True, kw_only=True)
class SingleDevice(Baseline):
    """Every device with every simple order; the best by the problem's fitness. found_by names the order."""

    name: str = "single-device"

    def candidates(self, problem: Problem) -> Iterator[Candidate]:
        return chain.from_iterable(one_device_candidates(problem, m.name, m.order) for m in ORDERS)
