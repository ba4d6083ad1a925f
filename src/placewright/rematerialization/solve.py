"""The plan of one device within a memory limit that no order of its ops keeps: some of them run again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

import placewright._core as _core
from placewright.bounds import least_limit
from placewright.problem import Problem
from placewright.problem.running_again import again_before
from placewright.rematerialization.proofs import kept
from placewright.rematerialization.reruns import Rerun, names_of_runs, rewritten
from placewright.search.constructive.one_device import INPUT_ORDER
from placewright.search.run.drive import drive
from placewright.search.run.result import Result, Solution, measure
from placewright.search.run.search_run import SearchRun

NAME = "rematerialization"
#: For the least memory at a price: how often the gap between limits is halved, and the least gap, of the peak.
_HALVINGS, _LEAST_STEP = 12, 0.002


@dataclass(frozen=True, kw_only=True, eq=False)
class Rematerialized:
    """A problem with reruns as ops, and its solution.

    problem: of the rewritten graph. result: found_by says which method, where the reruns are in `reruns`.
    """

    problem: Problem
    result: Result
    reruns: tuple[Rerun, ...]


def rerun_evaluations(problem: Problem) -> int:
    """About what a second lasts for."""
    return max(12, min(2000, 400_000 // problem.core.num_ops))


def rematerialize(problem: Problem, run: SearchRun, keep: Sequence[str] = ()) -> Rematerialized:
    """The best runs that the search finds; where none keeps the limit, those nearest to it.

    problem: of one device; first runs are in the order of its graph. keep: globs over names of ops and modules that run
    once. Raises InputError for one that matches none.
    """
    assert problem.machine.num_devices == 1
    lowered = problem.lowered
    ops = np.arange(len(lowered.graph_op), dtype=np.int32)
    until = again_before(problem)
    until[kept(problem, keep)] = -1
    search = _core.RematerializationSearch(problem=problem.core, order=ops, again_before=until, seed=run.seed)
    reason = drive(run, search, NAME)
    reruns = tuple(_reruns(problem, *search.best()))
    again = with_reruns(problem, reruns)
    return Rematerialized(
        problem=again, result=run.result(again, NAME, in_order(again), stopped_because=reason), reruns=reruns
    )


def least_memory(
    problem: Problem, run: SearchRun, max_slowdown: float, keep: Sequence[str] = ()
) -> Rematerialized | None:
    """The runs of least peak memory that are found within a step time; None where nothing is found below the peak of
    the graph's own order, each op running once.

    Limits between what is proven to be needed and the least that is found are halved; each gets an equal part of the
    run. max_slowdown: how much longer the step may take than in that order, as a share. problem, keep: as
    `rematerialize` takes them.
    """
    once = measure(problem, in_order(problem))
    longest_ns = once.step_time_ns * (1 + max_slowdown)
    low, high, best = least_limit(problem)[0], once.peak_memory_bytes, None
    for halving in range(_HALVINGS):
        if high - low <= once.peak_memory_bytes * _LEAST_STEP:
            break
        limit = (low + high) // 2
        part = run.part(1 / (_HALVINGS - halving))
        found = rematerialize(replace(problem, objective="step-time", memory_limits_bytes=(limit,)), part, keep)
        metrics = found.result.metrics
        if metrics.bytes_over_limit == 0 and metrics.step_time_ns <= longest_ns:
            best, high = found, metrics.peak_memory_bytes
        else:
            low = limit
    if best is None:
        return None
    again = replace(best.problem, objective=problem.objective, memory_limits_bytes=problem.memory_limits_bytes)
    result = run.result(again, NAME, in_order(again), stopped_because="evaluations")
    return Rematerialized(problem=again, result=result, reruns=best.reruns)


def in_order(problem: Problem) -> Solution:
    """The order of the graph, on one device."""
    order = INPUT_ORDER.order(problem)
    return Solution(
        device_of=np.zeros(len(order), np.int32),
        order=np.stack([order, np.full_like(order, -1)], axis=1).astype(np.int32),
    )


def with_reruns(problem: Problem, reruns: tuple[Rerun, ...]) -> Problem:
    """The problem in which every run of an op is an op."""
    found = rewritten(problem.graph, reruns)
    of = list(found.op_of)
    return replace(
        problem,
        graph=found.graph,
        time_ns=np.ascontiguousarray(problem.time_ns[of]),
        time_origin=None if problem.time_origin is None else np.ascontiguousarray(problem.time_origin[of]),
    )


def _reruns(problem: Problem, ops: NDArray[np.int32], kept: NDArray[np.uint64]) -> Iterator[Rerun]:
    """From the runs of the core, the op of each and which of its own pieces of memory are kept, to records by name."""
    graph, lowered = problem.graph, problem.lowered
    runs = lowered.graph_op[ops].tolist()
    has_run: set[int] = set()
    waiting: list[tuple[str, int, int]] = []
    for name, op, graph_op, bits in zip(names_of_runs(graph, runs), ops.tolist(), runs, kept.tolist(), strict=True):
        if op in has_run:
            waiting.append((name, op, bits))
            continue
        has_run.add(op)
        for rerun, original, given in waiting:
            yield Rerun(
                name=rerun,
                op=graph.ops[lowered.graph_op[original]].name,
                before=graph.ops[graph_op].name,
                tensors=tuple(_given(problem, original, given)),
            )
        waiting.clear()


def _given(problem: Problem, op: int, bits: int) -> Iterator[str]:
    lowered = problem.lowered
    own = [
        tensor
        for tensor in range(lowered.output_begin[op], lowered.output_begin[op + 1])
        if lowered.storage[tensor] == tensor
    ]
    for place, tensor in enumerate(own):
        if bits >> place & 1:
            yield problem.graph.tensors[lowered.graph_tensor[tensor]].name
