"""Conditions for reruns and moves: the ops that may run again, and until when, and the tensors that may be moved to the
host."""

from __future__ import annotations

from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from placewright.graph import Graph, Op
from placewright.importers.xla.kinds import COLLECTIVES
from placewright.problem.problem import Problem

#: Ops that use or change something outside the step, or contain a body with unknown effects.
_ONCE = ("input", "optimizer", "control_flow", "other")
#: Its statistics are written in addition to a result that does not depend on them: a rerun leaves them unchanged.
_STATISTICS = "normalization"


_AGAIN_BEFORE: WeakKeyDictionary[Problem, NDArray[np.int32]] = WeakKeyDictionary()


def again_before(problem: Problem) -> NDArray[np.int32]:
    """Find per scheduled op the scheduled op from which on it cannot run again, because one of its inputs has been
    overwritten; the number of ops where none is, and -1 for an op that can run only once. Returns int32 [num scheduled
    ops], which is read-only."""
    if problem not in _AGAIN_BEFORE:
        _AGAIN_BEFORE[problem] = _again_before(problem)
        _AGAIN_BEFORE[problem].flags.writeable = False
    return _AGAIN_BEFORE[problem]


def some_run_again(problem: Problem, once: NDArray[np.bool_]) -> bool:
    """True if an op may run again, other than those of a mask over scheduled ops. Looks only as far as the first."""
    rules = _Rules(problem)
    return any(rules.until(index) >= 0 for index in np.flatnonzero(~once).tolist())


def _again_before(problem: Problem) -> NDArray[np.int32]:
    rules = _Rules(problem)
    return np.array([rules.until(index) for index in range(len(rules.scheduled))], np.int32)


class _Rules:
    """The rules by which scheduled ops may run again."""

    def __init__(self, problem: Problem) -> None:
        self.scheduled = problem.lowered.graph_op.tolist()
        self._graph = problem.graph
        self._writers = _writers(problem.graph, self.scheduled)
        self._beside = read_by_views(problem.graph)

    def until(self, index: int) -> int:
        """The entry of one op in `again_before`."""
        graph, op = self._graph, self._graph.ops[self.scheduled[index]]
        if not may_run_again(graph, op):
            return -1
        own = {graph.base_of[tensor] for tensor in op.outputs}
        bases = {graph.base_of[tensor] for tensor in op.inputs} - own
        # A view of its result is recomputed whenever it is read, with the sizes that exist at that time.
        sizes = set[int]().union(*(self._beside.get(base, ()) for base in own))
        if any(writer > index for base in sizes for writer in self._writers.get(base, ())):
            return -1
        later = [writer for base in bases for writer in self._writers.get(base, ()) if writer > index]
        return min(later, default=len(self.scheduled))


def may_run_again(graph: Graph, op: Op) -> bool:
    """True if a second run of an op can give the same result as the first and change nothing else.

    Ops that draw random numbers qualify: a rerun starts from the generator's state of the first run.
    """
    overwritten = [graph.base_of[tensor] for tensor in op.outputs if graph.tensors[tensor].alias_of is not None]
    are_statistics = op.kind == _STATISTICS and all(graph.producer_of[base] < 0 for base in overwritten)
    return op.kind not in _ONCE and op.target not in COLLECTIVES and (not overwritten or are_statistics)


def may_move(problem: Problem) -> NDArray[np.uint8]:
    """Mark per scheduled tensor with 1 if it may be moved to the host and back: it owns its memory, which is not
    written in place and is freed before the step ends, and no other tensor that its views read is overwritten. Returns
    uint8 [num scheduled tensors]."""
    graph, lowered = problem.graph, problem.lowered
    own = lowered.storage == np.arange(len(lowered.storage))
    found = own & (lowered.graph_tensor >= 0) & (lowered.allocated_bytes > 0) & (lowered.live_out == 0)
    found[lowered.storage[lowered.producer[lowered.storage] != lowered.producer]] = False
    written = _writers(graph, lowered.graph_op.tolist()).keys()
    changing = [base for base, others in read_by_views(graph).items() if others & written]
    found &= ~np.isin(lowered.graph_tensor, changing)
    movable: NDArray[np.uint8] = found.astype(np.uint8)
    return movable


def read_by_views(graph: Graph) -> dict[int, set[int]]:
    """Map each piece of memory, by its tensor, to the other pieces that views of it read, such as sizes."""
    found: dict[int, set[int]] = {}
    for op in graph.ops:
        if op.kind == "view":
            inputs = {graph.base_of[tensor] for tensor in op.inputs}
            for base in {graph.base_of[tensor] for tensor in op.outputs}:
                if others := inputs - {base}:
                    found.setdefault(base, set()).update(others)
    return found


def _writers(graph: Graph, scheduled: list[int]) -> dict[int, list[int]]:
    """Map each overwritten piece of memory, by its tensor, to the scheduled ops that overwrite it."""
    writers: dict[int, list[int]] = {}
    for index, place in enumerate(scheduled):
        for tensor in graph.ops[place].outputs:
            if graph.tensors[tensor].alias_of is not None:
                writers.setdefault(graph.base_of[tensor], []).append(index)
    return writers
