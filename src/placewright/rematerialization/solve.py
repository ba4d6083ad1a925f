"""The plan of one device within a memory limit that no order of its ops keeps: some of them run again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

import placewright._core as _core
from placewright.problem import Problem
from placewright.problem.constraints import OpNames
from placewright.problem.running_again import again_before
from placewright.rematerialization.reruns import Rerun, names_of_runs, rewritten
from placewright.search.constructive.one_device import INPUT_ORDER
from placewright.search.run.drive import drive
from placewright.search.run.result import Result, Solution
from placewright.search.run.search_run import SearchRun
from placewright.support.errors import InputError, shown

NAME = "rematerialization"


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
    return max(12, min(1000, 200_000 // problem.core.num_ops))


def rematerialize(problem: Problem, run: SearchRun, keep: Sequence[str] = ()) -> Rematerialized:
    """The best runs that the search finds; where none keeps the limit, those nearest to it.

    problem: of one device; first runs are in the order of its graph. keep: globs over names of ops and modules that run
    once. Raises InputError for one that matches none.
    """
    assert problem.machine.num_devices == 1
    lowered = problem.lowered
    ops = np.arange(len(lowered.graph_op), dtype=np.int32)
    until = again_before(problem)
    names = OpNames(problem.graph.ops[index] for index in lowered.graph_op)
    for pattern in keep:
        if not (matched := names.matching(pattern)):
            raise InputError(f"keep names '{shown(pattern)}', which matches no op of '{shown(problem.graph.name)}'")
        until[matched] = -1
    search = _core.RematerializationSearch(problem=problem.core, order=ops, again_before=until, seed=run.seed)
    reason = drive(run, search, NAME)
    reruns = tuple(_reruns(problem, *search.best()))
    again = with_reruns(problem, reruns)
    order = INPUT_ORDER.order(again)
    solution = Solution(
        device_of=np.zeros(len(order), np.int32),
        order=np.stack([order, np.full(len(order), -1, np.int32)], axis=1).astype(np.int32),
    )
    return Rematerialized(
        problem=again, result=run.result(again, NAME, solution, stopped_because=reason), reruns=reruns
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
