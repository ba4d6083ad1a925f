"""Proofs about plans whose ops may run again, and whose tensors may be moved to the host."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

import numpy as np
from numpy.typing import NDArray

from placewright.bounds import (
    Bound,
    bound_with_reruns,
    least_limit,
    memory_floor_with_reruns,
    moved_time,
    nothing_fits_with_reruns,
    rematerialized_time,
)
from placewright.machines.host import HostMemory
from placewright.problem import Problem
from placewright.problem.constraints import OpNames
from placewright.problem.running_again import may_move, some_run_again
from placewright.problem.streaming import streamable
from placewright.support.errors import InputError, shown

#: Prefixes of entries of `keep`; an entry without one has the effect of the first two.
_ABOUT = ("recompute", "move", "weight")


def bound_of_reruns(problem: Problem, *, fits: bool, host: HostMemory | None = None) -> Bound:
    """Return the best lower bound on the objective when ops may run again, and tensors may be moved to the host.

    fits: True for a bound on plans that keep the limits only. host: None where nothing may be moved.
    """
    bound, several = bound_with_reruns(problem), problem.machine.num_devices > 1
    if problem.objective == "peak-memory" and host is not None and not several:
        return Bound(least_limit(problem, host)[0], "largest op with its inputs, outputs and parameters")
    if not fits or problem.objective != "step-time" or several:
        return bound
    within = rematerialized_time(problem) if host is None else moved_time(problem, host)
    return max(bound, within, key=lambda each: each.value)


def some_may_run_again(problem: Problem, keep: Sequence[str]) -> bool:
    """True if an op may run again: not all are kept. keep: as in `kept`, which says what it raises."""
    return some_run_again(problem, kept(problem, keep))


def some_may_move(problem: Problem, keep: Sequence[str], host: HostMemory | None) -> bool:
    """True if a tensor may be moved to the host, or a weight may stay there. keep: as in `kept`, which says what it
    raises."""
    stays = kept_in_place(problem, keep)
    movable = may_move(problem).astype(np.bool_) & ~stays[problem.lowered.producer]
    if host is None or problem.control != "signal":
        return False
    return bool(movable.any()) or bool(weights_to_stream(problem, keep))


def no_runs_fit(problem: Problem, host: HostMemory | None) -> bool:
    """True if it is proven that no plan keeps the limits, whatever ops run again or tensors are moved."""
    if problem.machine.num_devices > 1:
        return nothing_fits_with_reruns(problem)
    limit = problem.memory_limits_bytes[0]
    return limit is not None and least_limit(problem, host)[0] > limit


def floor_of_reruns(problem: Problem, host: HostMemory | None) -> tuple[int, str]:
    """Return the least peak of any plan on its fullest device, whatever ops run again or tensors are moved; and the op
    that needs it, if it is known."""
    if problem.machine.num_devices > 1:
        return memory_floor_with_reruns(problem), ""
    return least_limit(problem, host)


def quick_floor(problem: Problem, host: HostMemory | None) -> int:
    """Return a lower bound on the peak of every plan, whatever ops run again or tensors are moved. It need not be the
    best bound, which takes a second for 100,000 ops."""
    if host is not None and problem.machine.num_devices == 1 and streamable(problem.graph):
        return least_limit(problem, host)[0]
    return memory_floor_with_reruns(problem)


def kept(problem: Problem, keep: Sequence[str]) -> NDArray[np.bool_]:
    """Mark the scheduled ops that run only once. keep: globs over names of ops and modules: "recompute:GLOB" for ops
    that run only once, "move:GLOB" for ops whose results are not moved and whose weights stay, GLOB for both;
    "weight:GLOB" is over names of weights that stay. Raises InputError for a glob without a match."""
    return _matched(problem, keep, "recompute")


def kept_in_place(problem: Problem, keep: Sequence[str]) -> NDArray[np.bool_]:
    """Mark the scheduled ops whose results are not to be moved. keep: as in `kept`, which says what it raises."""
    return _matched(problem, keep, "move")


def weights_to_stream(problem: Problem, keep: Sequence[str]) -> tuple[int, ...]:
    """List the weights of an inference that may be at the host, by tensor: none with several devices. keep: as in
    `kept`, which says what it raises."""
    if problem.machine.num_devices > 1:
        return ()
    graph, stays = problem.graph, kept_in_place(problem, keep)
    kept_ops = {int(op) for op in problem.lowered.graph_op[stays]}
    in_place = {graph.base_of[tensor] for op in kept_ops for tensor in graph.ops[op].inputs}
    patterns = [pattern for about, pattern in map(kept_pattern, keep) if about == "weight"]
    return tuple(
        weight
        for weight in streamable(graph)
        if weight not in in_place and not any(fnmatchcase(graph.tensors[weight].name, each) for each in patterns)
    )


def kept_pattern(entry: str) -> tuple[str, str]:
    """Split an entry of `keep` into its prefix, "" for none, and its glob."""
    about, colon, pattern = entry.partition(":")
    return (about, pattern) if colon and about in _ABOUT else ("", entry)


def _matched(problem: Problem, keep: Sequence[str], wanted: str) -> NDArray[np.bool_]:
    names = OpNames(problem.graph.ops[index] for index in problem.lowered.graph_op)
    found = np.zeros(len(problem.lowered.graph_op), np.bool_)
    for entry in keep:
        about, pattern = kept_pattern(entry)
        if about == "weight":
            parameters = [tensor.name for tensor in problem.graph.tensors if tensor.role == "parameter"]
            if pattern != "*" and not any(fnmatchcase(name, pattern) for name in parameters):
                raise InputError(
                    f"keep names '{shown(pattern)}', which matches no parameter of '{shown(problem.graph.name)}'"
                )
            continue
        if not (matched := names.matching(pattern)):
            raise InputError(f"keep names '{shown(pattern)}', which matches no op of '{shown(problem.graph.name)}'")
        if about in ("", wanted):
            found[matched] = True
    return found
