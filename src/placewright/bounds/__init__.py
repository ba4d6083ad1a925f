"""Proven lower bounds on the objective, cheap enough to compute for every plan (docs/algorithms.md, "Lower bounds")."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from weakref import WeakKeyDictionary

from placewright.bounds.bound import Bound
from placewright.bounds.memory_limit import least_limit
from placewright.bounds.moves import moved_time
from placewright.bounds.peak_memory import (
    largest_op,
    live_tensors,
    memory_floor_bytes,
    memory_floor_with_reruns,
    nothing_fits,
    nothing_fits_with_reruns,
    spread_residents,
)
from placewright.bounds.rematerialization import rematerialized_time
from placewright.bounds.step_time import (
    common_divisor_ns,
    critical_path,
    delayed_path,
    fullest_window,
    launches,
    launches_and_work,
    shared_device,
    total_work,
)
from placewright.problem import Problem
from placewright.problem.objective import Objective

__all__ = [
    "Bound",
    "bound_with_reruns",
    "common_divisor_ns",
    "critical_path",
    "delayed_path",
    "fullest_window",
    "largest_op",
    "launches",
    "launches_and_work",
    "least_limit",
    "live_tensors",
    "lower_bound",
    "memory_floor_bytes",
    "memory_floor_with_reruns",
    "moved_time",
    "nothing_fits",
    "nothing_fits_with_reruns",
    "rematerialized_time",
    "shared_device",
    "spread_residents",
    "total_work",
]

#: The simplest first: among equal bounds, it is the one that is named.
_BOUNDS: Mapping[Objective, tuple[Callable[[Problem], Bound], ...]] = {
    "step-time": (critical_path, total_work, shared_device, launches, launches_and_work, delayed_path, fullest_window),
    "peak-memory": (largest_op, spread_residents, live_tensors),
}
#: Bounds that also hold when ops may run again: tensors alive together can then be dropped.
_BOUNDS_WITH_RERUNS = {**_BOUNDS, "peak-memory": (largest_op, spread_residents)}

#: Cache: problems are immutable, and their methods, plans and checks ask repeatedly.
_BEST: WeakKeyDictionary[Problem, Bound] = WeakKeyDictionary()


def lower_bound(problem: Problem) -> Bound:
    """Return the best of the bounds that hold for the problem's objective. A bound on the step time is rounded up to a
    multiple of the common divisor of all times."""
    known = _BEST.get(problem)
    if known is None:
        known = max((bound(problem) for bound in _BOUNDS[problem.objective]), key=lambda bound: bound.value)
        if problem.objective == "step-time":
            divisor = common_divisor_ns(problem)
            known = replace(known, value=-(-known.value // divisor) * divisor)
        _BEST[problem] = known
    return known


def bound_with_reruns(problem: Problem) -> Bound:
    """Return the best of the bounds that hold when ops may run again."""
    return max((bound(problem) for bound in _BOUNDS_WITH_RERUNS[problem.objective]), key=lambda bound: bound.value)
