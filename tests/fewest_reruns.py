"""The least time within a memory limit when ops may run again, by trying everything: slow and obvious."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass

from placewright.problem import Problem
from placewright.problem.running_again import again_before


@dataclass(frozen=True, kw_only=True)
class Piece:
    """Memory that an op makes: bytes, whether it stays to the end, and whether a later run may give it anew."""

    maker: int
    size: int
    stays: bool
    may_go: bool


class Ops:
    """A problem with one device as sets of pieces of memory, by tensor."""

    def __init__(self, problem: Problem) -> None:
        lowered = problem.lowered
        self.limit = problem.memory_limits_bytes[0]
        self.resident = int(lowered.resident_bytes.sum())
        self.time_ns = [int(problem.time_ns[op, 0]) for op in lowered.graph_op]
        self.workspace = lowered.workspace_bytes.tolist()
        self.until = again_before(problem).tolist()
        tensors, ops = problem.graph.tensors, [problem.graph.ops[op] for op in lowered.graph_op]
        outputs = [[tensors[tensor] for tensor in op.outputs] for op in ops]
        self.beside = [sum(each.held_bytes for each in own if each.alias_of is not None) for own in outputs]
        count = len(self.time_ns)
        producer, storage = lowered.producer.tolist(), lowered.storage.tolist()
        written = {storage[tensor] for tensor in range(len(storage)) if producer[storage[tensor]] != producer[tensor]}
        self.pieces = {
            tensor: Piece(
                maker=op,
                size=int(lowered.allocated_bytes[tensor]),
                stays=bool(lowered.live_out[tensor]),
                may_go=not lowered.live_out[tensor] and tensor not in written and self.until[op] >= 0,
            )
            for tensor, op in enumerate(producer)
            if storage[tensor] == tensor
        }
        self.makes: list[set[int]] = [
            {t for t, piece in self.pieces.items() if piece.maker == op} for op in range(count)
        ]
        self.reads: list[set[int]] = [set() for _ in range(count)]
        self.waits: list[set[int]] = [set() for _ in range(count)]
        for op in range(count):
            for tensor in lowered.inputs[lowered.input_begin[op] : lowered.input_begin[op + 1]].tolist():
                self.reads[op].add(storage[tensor])
                self.waits[op].add(producer[tensor])
            for after in lowered.controls[lowered.control_begin[op] : lowered.control_begin[op + 1]].tolist():
                self.waits[after].add(op)
        for tensor, op in enumerate(producer):
            if producer[storage[tensor]] != op:
                self.reads[op].add(storage[tensor])


def least_time(problem: Problem, any_order: bool) -> int | None:
    """The least time, by Dijkstra's search over what has run and what is held; None if nothing keeps the limit. First
    runs are in the graph's order, or with `any_order` in any that its dependencies allow."""
    ops = Ops(problem)
    everything = frozenset(range(len(ops.time_ns)))
    start = (frozenset[int](), frozenset[int]())
    best = {start: 0}
    queue = [(0, 0, start)]
    number = 0
    while queue:
        time, _, state = heapq.heappop(queue)
        if best[state] < time:
            continue
        if state[0] == everything:
            return time
        for taken, then in _next(ops, *state, any_order):
            if time + taken < best.get(then, time + taken + 1):
                best[then] = time + taken
                number += 1
                heapq.heappush(queue, (time + taken, number, then))
    return None


def _next(
    ops: Ops, done: frozenset[int], held: frozenset[int], any_order: bool
) -> Iterator[tuple[int, tuple[frozenset[int], frozenset[int]]]]:
    for piece in held:
        if not ops.pieces[piece].stays:
            yield 0, (done, held - {piece})
    for op, reads in enumerate(ops.reads):
        is_first = op not in done
        if is_first and not (ops.waits[op] <= done and (any_order or op == len(done))):
            continue
        if not is_first and (ops.until[op] < 0 or ops.until[op] in done):
            continue
        in_use = ops.resident + ops.workspace[op] + (0 if is_first else ops.beside[op])
        in_use += sum(ops.pieces[piece].size for piece in [*held, *ops.makes[op]])
        if reads <= held and (ops.limit is None or in_use <= ops.limit):
            given = {piece for piece in ops.makes[op] if is_first or ops.pieces[piece].may_go}
            yield ops.time_ns[op], (done | {op}, held | given)
