"""All plans with few reruns and moves on one device with a host, each simulated: slow and obvious."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, permutations, product

from placewright.machines.host import HostMemory
from placewright.problem import Problem
from placewright.problem.running_again import again_before, may_move
from placewright.problem.streaming import streamable
from placewright.rematerialization.reruns import Move, Rerun
from placewright.rematerialization.solve import in_order, with_reruns
from placewright.search.run.result import measure
from placewright.support.errors import InputError

Plan = tuple[tuple[Rerun, ...], tuple[Move, ...]]


def all_plans(problem: Problem, returns: int = 1) -> Iterator[Plan]:
    """All plans in which each op runs again at most once and each tensor returns at most `returns` times."""
    for reruns in _reruns(problem):
        runs = _runs(problem, reruns)
        for moves in product(*_moves(problem, runs, returns)):
            yield reruns, tuple(move for move in moves if move is not None)


def simulated(problem: Problem, host: HostMemory, returns: int = 1) -> Iterator[tuple[int, int, int]]:
    """The step time of each plan, and its peaks on the device and on the host."""
    for reruns, moves in all_plans(problem, returns):
        try:
            changed = with_reruns(problem, reruns, moves, host)
        except InputError:
            continue  # It would leave after it was made again.
        metrics = measure(changed, in_order(changed))
        on_device, at_host = metrics.peak_bytes
        yield metrics.step_time_ns, on_device, at_host


def _reruns(problem: Problem) -> Iterator[tuple[Rerun, ...]]:
    """All choices and orders of reruns, at most one per op: before any later op where it may run again, giving some of
    its results that are read."""
    graph, lowered = problem.graph, problem.lowered
    names = [graph.ops[op].name for op in lowered.graph_op]
    of_op: list[list[Rerun | None]] = []
    for op, until in enumerate(again_before(problem).tolist()):
        made = range(lowered.output_begin[op], lowered.output_begin[op + 1])
        own = [t for t in made if lowered.storage[t] == t and lowered.allocated_bytes[t] and not lowered.live_out[t]]
        read = [t for t in own if any(t in _read(problem, reader) for reader in range(op + 1, len(names)))]
        some = [each for count in range(1, len(read) + 1) for each in combinations(read, count)]
        choices: list[Rerun | None] = [None]
        for place, tensors in product(range(op + 1, min(until + 1, len(names))), some):
            given = tuple(graph.tensors[lowered.graph_tensor[tensor]].name for tensor in tensors)
            choices.append(Rerun(name=f"{names[op]}@2", op=names[op], before=names[place], tensors=given))
        of_op.append(choices)
    for chosen in product(*of_op):
        yield from permutations(rerun for rerun in chosen if rerun is not None)


def _runs(problem: Problem, reruns: tuple[Rerun, ...]) -> list[tuple[str, int]]:
    """Names and ops in the order in which they run."""
    runs = []
    names = [problem.graph.ops[op].name for op in problem.lowered.graph_op]
    for op, name in enumerate(names):
        runs += [(rerun.name, names.index(rerun.op)) for rerun in reruns if rerun.before == name]
        runs.append((name, op))
    return runs


def _read(problem: Problem, op: int) -> set[int]:
    lowered = problem.lowered
    return {int(lowered.storage[t]) for t in lowered.inputs[lowered.input_begin[op] : lowered.input_begin[op + 1]]}


def _moves(problem: Problem, runs: list[tuple[str, int]], returns: int) -> Iterator[list[Move | None]]:
    """All moves of each tensor and weight, and None for no move: each return has a reader before the next."""
    graph, lowered = problem.graph, problem.lowered
    firsts = [next(at for at, (_, own) in enumerate(runs) if own == op) for op in range(len(lowered.graph_op))]
    movable = [
        (
            graph.tensors[lowered.graph_tensor[tensor]].name,
            firsts[lowered.producer[tensor]] + 1,
            [at for at, (_, op) in enumerate(runs) if tensor in _read(problem, op)],
            False,
        )
        for tensor in range(len(lowered.producer))
        if may_move(problem)[tensor]
    ]
    for weight in streamable(graph):
        readers = {
            op
            for op, index in enumerate(lowered.graph_op.tolist())
            if any(weight in _bases(problem, read) for read in graph.ops[index].inputs)
        }
        movable.append((graph.tensors[weight].name, 0, [at for at, (_, op) in enumerate(runs) if op in readers], True))
    for name, begin, readers_at, is_weight in movable:
        found: list[Move | None] = [None]
        for count in range(1, returns + 1):
            for places in combinations(range(begin, len(runs)), count):
                ends = (*places[1:], len(runs))
                if not all(any(at <= r < end for r in readers_at) for at, end in zip(places, ends, strict=True)):
                    continue
                back = tuple(runs[at][0] for at in places)
                if is_weight:
                    if places[0] <= readers_at[0]:
                        found.append(Move(tensor=name, leaves_before=None, returns_before=back))
                    continue
                for leaves in range(begin, places[0] + 1):
                    found.append(Move(tensor=name, leaves_before=runs[leaves][0], returns_before=back))
        yield found


def _bases(problem: Problem, tensor: int) -> set[int]:
    return {tensor, problem.graph.base_of[tensor]}
