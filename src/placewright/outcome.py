"""What came of a search, in words: shared by the command line and the report."""

from __future__ import annotations

from placewright.plan import BaselineOutcome, Plan
from placewright.quantities import format_bytes, format_time_ns

#: Files may state any number; more than this many seconds is shown as this many.
_MOST_SECONDS = 1e15
_STOPPED = {
    "evaluations": "budget used",
    "time": "time limit",
    "complete": "nothing left to try",
    "optimal": "proven optimal",
    "interrupted": "interrupted, the best plan so far",
    "infeasible": "proven that nothing fits",
}


#: Baselines that use one device alone.
_ON_ONE_DEVICE = ("single-device", "input-order")


def fastest_single_device(plan: Plan) -> BaselineOutcome | None:
    """The fastest baseline that runs on one device and fits there; None where none fits or none ran."""
    fitting = [
        (baseline.metrics.step_time_ns, index)
        for index, baseline in enumerate(plan.baselines)
        if baseline.name in _ON_ONE_DEVICE and baseline.metrics is not None and not baseline.metrics.bytes_over_limit
    ]
    return plan.baselines[min(fitting)[1]] if fitting else None


def proven_infeasible(plan: Plan) -> bool:
    """Whether a bound proves that no plan keeps the memory limits."""
    return plan.status == "infeasible" and plan.stopped_because == "infeasible"


def verdict_words(plan: Plan) -> str:
    """Of an infeasible plan: whether another one could fit."""
    return "no plan can fit (proven)" if proven_infeasible(plan) else "no plan found that fits"


def floor_words(plan: Plan) -> str:
    """The memory no plan can do without; empty where nothing is proven."""
    if not plan.memory_floor_bytes:
        return ""
    return f"every plan needs at least {format_bytes(plan.memory_floor_bytes)} on its fullest device"


def stopped_words(plan: Plan) -> str:
    """Why the search ended."""
    return _STOPPED.get(plan.stopped_because, plan.stopped_because)


def took_words(plan: Plan) -> str:
    """How long the search took."""
    return format_time_ns(round(min(max(plan.seconds, 0.0), _MOST_SECONDS) * 1e9))


def found_by_words(plan: Plan) -> str:
    """The method that found the plan, its variant in parentheses."""
    method, _, variant = plan.found_by.partition(": ")
    return f"{method} ({variant})" if variant else method
