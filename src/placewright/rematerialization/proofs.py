"""What is proven of plans of one device whose ops may run again, and whose tensors may be moved to the host."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from placewright.bounds import Bound, bound_with_reruns, least_limit, moved_time, rematerialized_time
from placewright.machines.host import HostMemory
from placewright.problem import Problem
from placewright.problem.constraints import OpNames
from placewright.problem.running_again import again_before, may_move
from placewright.support.errors import InputError, shown

#: What an entry of `keep` is about where it says so; without, it is about both.
_ABOUT = ("recompute", "move")


def bound_of_reruns(problem: Problem, *, fits: bool, host: HostMemory | None = None) -> Bound:
    """The best lower bound on the objective when ops may run again, and tensors be moved to the host.

    fits: only of plans that keep the limits. host: None where nothing may be moved.
    """
    bound = bound_with_reruns(problem)
    if not fits or problem.objective != "step-time":
        return bound
    within = rematerialized_time(problem) if host is None else moved_time(problem, host)
    return max(bound, within, key=lambda each: each.value)


def some_may_run_again(problem: Problem, keep: Sequence[str]) -> bool:
    """Whether an op may run again: on one device, where not all are kept. keep: as in `kept`, which says what it
    raises."""
    once = kept(problem, keep)
    return problem.machine.num_devices == 1 and bool((again_before(problem)[~once] >= 0).any())


def some_may_move(problem: Problem, keep: Sequence[str], host: HostMemory | None) -> bool:
    """Whether a tensor may be moved to the host. keep: as in `kept`, which says what it raises."""
    stays = kept_in_place(problem, keep)
    movable = may_move(problem).astype(np.bool_) & ~stays[problem.lowered.producer]
    return host is not None and problem.control == "signal" and bool(movable.any())


def no_runs_fit(problem: Problem, host: HostMemory | None) -> bool:
    """Whether it is proven that no plan of one device keeps the limit, whatever runs again or is moved."""
    limit = problem.memory_limits_bytes[0]
    return limit is not None and least_limit(problem, host)[0] > limit


def kept(problem: Problem, keep: Sequence[str]) -> NDArray[np.bool_]:
    """Which scheduled ops are to run once. keep: globs over names of ops and modules, "recompute:GLOB" for those that
    run once, "move:GLOB" for those whose results are not moved, GLOB for both. Raises InputError for one that matches
    none."""
    return _matched(problem, keep, "recompute")


def kept_in_place(problem: Problem, keep: Sequence[str]) -> NDArray[np.bool_]:
    """Of which scheduled ops the results are not to be moved. keep: as in `kept`, which says what it raises."""
    return _matched(problem, keep, "move")


def kept_pattern(entry: str) -> tuple[str, str]:
    """What an entry of `keep` is about, "" for both, and its glob."""
    about, colon, pattern = entry.partition(":")
    return (about, pattern) if colon and about in _ABOUT else ("", entry)


def _matched(problem: Problem, keep: Sequence[str], wanted: str) -> NDArray[np.bool_]:
    names = OpNames(problem.graph.ops[index] for index in problem.lowered.graph_op)
    found = np.zeros(len(problem.lowered.graph_op), np.bool_)
    for entry in keep:
        about, pattern = kept_pattern(entry)
        if not (matched := names.matching(pattern)):
            raise InputError(f"keep names '{shown(pattern)}', which matches no op of '{shown(problem.graph.name)}'")
        if about in ("", wanted):
            found[matched] = True
    return found
