"""Planning of one device within a memory limit that no order of its ops keeps: some ops run again, or their results are
moved to the host and back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

import placewright._core as _core
from placewright.bounds import least_limit
from placewright.graph import HOST_TARGET, ops_in_order, reordered
from placewright.machines.host import HostMemory, with_host
from placewright.problem import Problem
from placewright.problem.constraints import Constraints
from placewright.problem.lowering import Lowered
from placewright.problem.running_again import again_before, may_move
from placewright.problem.streaming import with_weights_made
from placewright.rematerialization.first_runs import SearchIn, nearer_order
from placewright.rematerialization.proofs import kept, kept_in_place, weights_to_stream
from placewright.rematerialization.reruns import Move, Rerun, check_names, names_of_runs, of_runs, rewritten
from placewright.search.constructive.one_device import INPUT_ORDER, ORDERS
from placewright.search.run.drive import drive
from placewright.search.run.result import Result, Solution, measure
from placewright.search.run.search_run import SearchRun
from placewright.support.quantities import QUANTITY_LIMIT

NAME = "rematerialization"
#: For the least memory at a price: the most halvings of the gap between limits; the least gap, as a share of the peak.
_HALVINGS, _LEAST_STEP = 12, 0.002
#: Share of the run for each order of first runs; with fewer evaluations for each, there is only one order.
_SHARE, _LEAST_SHARED = 0.25, 8
#: Share of the rest for other orders if no order at hand keeps the limit.
_SHARE_OF_ORDERS = 0.8
#: The number of starts of the core's search, without moves and with them.
_STARTS, _STARTS_WITH_MOVES = 10, 12


@dataclass(frozen=True, kw_only=True, eq=False)
class Rematerialized:
    """A problem with reruns and moves as ops, and its solution.

    problem: of the rewritten graph, on the machine with the host's memory where moves were allowed. result: its
    found_by names the method.
    """

    problem: Problem
    result: Result
    reruns: tuple[Rerun, ...]
    moves: tuple[Move, ...] = ()


def rerun_evaluations(problem: Problem) -> int:
    """Return about as many evaluations as a second suffices for."""
    return max(12, min(2000, 400_000 // problem.core.num_ops))


def rematerialize(
    problem: Problem,
    run: SearchRun,
    keep: Sequence[str] = (),
    host: HostMemory | None = None,
    orders: Sequence[NDArray[np.int32]] = (),
) -> Rematerialized:
    """Search for the best runs and moves; if none keeps the limit, return those nearest to it.

    problem: of one device. keep: as `kept` takes it, which says what it raises. host: memory to which tensors may be
    moved. orders: of first runs, int32 [num scheduled ops] each, tried in addition to the graph's; if none of these
    keeps the limit, others are sought. Without any, the graph's order is kept. If few evaluations are left, all go to
    the last order.
    """
    given = np.arange(problem.core.num_ops, dtype=np.int32)
    starts = list({order.tobytes(): order for order in (given, *orders)}.values())
    if run.evaluations_left < _LEAST_SHARED * len(starts):
        starts = starts[-1:]
    is_shared = len(starts) > 1
    found: list[_Searched] = []
    for number, order in enumerate(starts):
        if not found or run.reason_to_stop() is None:
            part = run.part(_SHARE / (1 - number * _SHARE)) if is_shared else run
            found.append(_Searched(problem, order, part, keep, host, gives_up=bool(orders) and not is_shared))
    best = min(found, key=_Searched.fitness)
    if run.reason_to_stop() is None:
        order = best.order
        if best.is_over() and orders:
            order = _nearer_order(problem, order, run.part(_SHARE_OF_ORDERS), keep, host)
        found.append(_Searched(problem, order, run.part(), keep, host))
    best = min(found, key=_Searched.fitness)
    result = run.result(best.again, NAME, best.solution, stopped_because=found[-1].reason)
    return Rematerialized(problem=best.again, result=result, reruns=best.reruns, moves=best.moves)


def _nearer_order(
    problem: Problem, order: NDArray[np.int32], run: SearchRun, keep: Sequence[str], host: HostMemory | None
) -> NDArray[np.int32]:
    search_in, _, _ = _core_searches(problem, run.seed, keep, host)
    return nearer_order(problem, order, run, search_in, _STARTS if host is None else _STARTS_WITH_MOVES, NAME)


class _Searched:
    """A search that has ended. order: of first runs. gives_up: True to end after a share of the run if no runs keep the
    limit by then. reason: why it ended. again, solution: the problem and solution of its result."""

    def __init__(
        self,
        problem: Problem,
        order: NDArray[np.int32],
        run: SearchRun,
        keep: Sequence[str],
        host: HostMemory | None,
        *,
        gives_up: bool = False,
    ) -> None:
        self.order = order
        is_given = bool((order == np.arange(len(order))).all())
        ordered = problem if is_given else in_other_order(problem, order)
        search, searched, weights = core_search(ordered, run.seed, keep, host)
        enough = int(run.evaluations_left * _SHARE)
        self.reason = drive(
            run,
            search,
            NAME,
            is_exhausted=lambda: gives_up and search.evaluations >= enough and search.best_bytes_over_limit > 0,
        )
        self.reruns, self.moves = records_of(searched, search.best(), weights)
        if self.reruns or self.moves:
            self.again = with_reruns(ordered, self.reruns, self.moves, host)
            self.solution = in_order(self.again)
        else:
            self.again, self.solution = with_reruns(problem, host=host), _once(order)

    def fitness(self) -> tuple[int, int, int]:
        """Return the fitness by the simulation, in which a host may launch ops: the search ignores launches."""
        return measure(self.again, self.solution).fitness("step-time")

    def is_over(self) -> bool:
        return self.fitness()[0] > 0


def in_other_order(problem: Problem, ops: NDArray[np.int32]) -> Problem:
    """Return the problem whose graph has the scheduled ops in an order, which must be topological."""
    graph, origin = problem.graph, problem.time_origin
    order = ops_in_order(graph, [graph.ops[op].name for op in problem.lowered.graph_op[ops]])
    return replace(
        problem,
        graph=reordered(graph, order),
        time_ns=np.ascontiguousarray(problem.time_ns[order]),
        time_origin=None if origin is None else np.ascontiguousarray(origin[order]),
    )


def order_of_least_memory(problem: Problem) -> NDArray[np.int32]:
    """Return the order with the least peak on one device, among those of compilers and the graph's own."""
    return min((each.order(problem) for each in ORDERS), key=lambda order: peak_in_order(problem, order))


def peak_in_order(problem: Problem, ops: NDArray[np.int32]) -> int:
    """Return the peak in bytes of one device that runs each op once."""
    return measure(problem, _once(ops)).peak_memory_bytes


def _once(ops: NDArray[np.int32]) -> Solution:
    """Return the solution with all ops on the first device, in an order."""
    return Solution(device_of=np.zeros_like(ops), order=np.stack([ops, np.full_like(ops, -1)], axis=1))


def ops_of(order: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return the ops of an order of ops, or of ops and transfers."""
    return order if order.ndim == 1 else order[order[:, 1] < 0, 0]


def core_search(
    problem: Problem, seed: int, keep: Sequence[str] = (), host: HostMemory | None = None
) -> tuple[_core.RematerializationSearch, Problem, int]:
    """Return the search of the core, the problem that it searches, and the number of ops at its beginning that
    represent weights that may be at the host. Parameters as `rematerialize` takes them. Raises InputError where a name
    in the graph is one that plans create."""
    search_in, searched, count = _core_searches(problem, seed, keep, host)
    return search_in(np.arange(problem.core.num_ops, dtype=np.int32)), searched, count


def _core_searches(
    problem: Problem, seed: int, keep: Sequence[str], host: HostMemory | None
) -> tuple[SearchIn, Problem, int]:
    """Return a function that makes the search of the core for an order of first runs; and the rest as in
    `core_search`."""
    assert problem.machine.num_devices == 1
    check_names(problem.graph, moves=host is not None)
    weights = weights_to_stream(problem, keep) if host is not None else ()
    searched, count = with_weights_made(problem, weights), len(weights)
    lowered = searched.lowered
    until = again_before(searched).copy()
    until[count:][kept(problem, keep)] = -1
    movable = None
    if host is not None:
        stays = np.append(np.zeros(count, np.bool_), kept_in_place(problem, keep))
        movable = np.where(stays[lowered.producer], 0, may_move(searched)).astype(np.uint8)
        movable[lowered.output_begin[:count]] = 1

    def search_in(order: NDArray[np.int32]) -> _core.RematerializationSearch:
        whole = np.append(np.arange(count, dtype=np.int32), order + np.int32(count))
        return search_beside(searched.core, until, seed, host, movable, count, whole)

    return search_in, searched, count


def search_beside(
    problem: _core.Problem,
    until: NDArray[np.int32],
    seed: int,
    host: HostMemory | None,
    movable: NDArray[np.uint8] | None,
    num_weights: int = 0,
    order: NDArray[np.int32] | None = None,
) -> _core.RematerializationSearch:
    """Make the search of the core for one device. until: as in `again_before`. movable: 1 for tensors that may be moved
    to the host. num_weights: the number of ops at the beginning that represent weights that may be there. order: of
    first runs; by default that of the ops.
    """
    links = [(0, 0), (0, 0)]
    if host is not None:
        links = [(link.latency_ns, link.inverse_bandwidth) for link in (*host.there, *host.back)]
    return _core.RematerializationSearch(
        problem=problem,
        order=np.arange(problem.num_ops, dtype=np.int32) if order is None else order,
        again_before=until,
        seed=seed,
        may_move=movable,
        link_there=links[0],
        link_back=links[1],
        host_limit=QUANTITY_LIMIT if host is None or host.memory_bytes is None else host.memory_bytes,
        num_weights=num_weights,
    )


def least_memory(
    problem: Problem,
    run: SearchRun,
    max_slowdown: float,
    keep: Sequence[str] = (),
    host: HostMemory | None = None,
    orders: Sequence[NDArray[np.int32]] = (),
) -> Rematerialized | None:
    """Search for the runs of least peak memory within a step time; None if no peak is found below that of the graph's
    own order and of others, each op running once.

    The gap between the proven least limit and the least that is found is halved repeatedly; each limit gets an equal
    part of the run. max_slowdown: how much longer the step may take than in the graph's order, as a share. problem,
    keep, host, orders: as `rematerialize` takes them.
    """
    once = measure(problem, in_order(problem))
    longest_ns = once.step_time_ns * (1 + max_slowdown)
    low, best = least_limit(problem, host)[0], None
    high = min([once.peak_memory_bytes, *(peak_in_order(problem, order) for order in orders)])
    for halving in range(_HALVINGS):
        if high - low <= once.peak_memory_bytes * _LEAST_STEP:
            break
        limit = (low + high) // 2
        part = run.part(1 / (_HALVINGS - halving))
        limited = replace(problem, objective="step-time", memory_limits_bytes=(limit,))
        found = rematerialize(limited, part, keep, host, orders)
        metrics = found.result.metrics
        if metrics.bytes_over_limit == 0 and metrics.step_time_ns <= longest_ns:
            best, high = found, metrics.peak_memory_bytes
        else:
            low = limit
    if best is None:
        return None
    limits = (*problem.memory_limits_bytes, *best.problem.memory_limits_bytes[1:])
    again = replace(best.problem, objective=problem.objective, memory_limits_bytes=limits)
    result = run.result(again, NAME, best.result.solution, stopped_because="evaluations")
    return Rematerialized(problem=again, result=result, reruns=best.reruns, moves=best.moves)


def in_order(problem: Problem, device_of: NDArray[np.int32] | None = None) -> Solution:
    """Return the order of the graph; tensors that are read on another device are sent when they are made.

    device_of: int32 [num scheduled ops]; by default all are on one device, except moves to the host and back.
    """
    ops, lowered = problem.graph.ops, problem.lowered
    if device_of is None:
        scheduled = lowered.graph_op.tolist()
        device_of = np.array([int(ops[op].target == HOST_TARGET) for op in scheduled], np.int32)
    order = INPUT_ORDER.order(problem)
    steps = np.stack([order, np.full_like(order, -1)], axis=1).astype(np.int32)
    read_at = device_of[lowered.reader]
    is_away = device_of[lowered.producer][lowered.inputs] != read_at
    if is_away.any():
        behind: dict[int, list[list[int]]] = {}
        for tensor, there in np.unique(np.stack([lowered.inputs, read_at], axis=1)[is_away], axis=0).tolist():
            behind.setdefault(int(lowered.producer[tensor]), []).append([tensor, there])
        steps = np.array([each for op in order.tolist() for each in ([op, -1], *behind.get(op, ()))], np.int32)
    return Solution(device_of=device_of, order=steps)


def with_reruns(
    problem: Problem,
    reruns: tuple[Rerun, ...] = (),
    moves: tuple[Move, ...] = (),
    host: HostMemory | None = None,
    device_of: Mapping[str, int] | None = None,
) -> Problem:
    """Return the problem in which every run of an op and every move are ops. host: becomes one more device. device_of:
    as `rewritten` takes it."""
    found = rewritten(problem.graph, reruns, moves, device_of)
    machine, limits, constraints = problem.machine, problem.memory_limits_bytes, problem.constraints
    if host is not None:
        machine, limits = with_host(machine, host), (*limits, host.memory_bytes)
    if host is not None or device_of is not None:
        constraints = Constraints()  # the placement satisfies them, and they do not cover reruns and the host
    return replace(
        problem,
        graph=found.graph,
        machine=machine,
        memory_limits_bytes=limits,
        constraints=constraints,
        time_ns=of_runs(problem.time_ns, found.op_of, machine.num_devices),
        time_origin=None
        if problem.time_origin is None
        else of_runs(problem.time_origin, found.op_of, machine.num_devices),
    )


def moves_of(
    problem: Problem, ops: NDArray[np.int32], kept: NDArray[np.uint64], moved: NDArray[np.int32], num_weights: int = 0
) -> Iterator[Move]:
    """Convert the runs of the core, in which -1 marks a tensor that has left or begins to come back, to records.
    num_weights: the number of ops at the beginning that represent weights, which come back without having left."""
    graph, lowered = problem.graph, problem.lowered
    weights = set(lowered.output_begin[:num_weights].tolist())
    names = names_of_runs(graph, lowered.graph_op[ops[ops >= 0]].tolist())
    leaves: dict[int, str | None] = {}
    returns: dict[int, list[str]] = {}
    waiting: list[tuple[int, bool]] = []
    for op, bits, tensor in zip(ops.tolist(), kept.tolist(), moved.tolist(), strict=True):
        if op < 0:
            waiting.append((tensor, bits != 0))
            continue
        name = next(names)
        for each, is_return in waiting:
            if is_return:
                returns.setdefault(each, []).append(name)
                if each in weights:
                    leaves[each] = None
            else:
                leaves[each] = name
        waiting.clear()
    for tensor, leaves_before in sorted(leaves.items()):
        moved_name = graph.tensors[lowered.graph_tensor[tensor]].name
        yield Move(tensor=moved_name, leaves_before=leaves_before, returns_before=tuple(returns.get(tensor, ())))


def records_of(
    problem: Problem, runs: tuple[NDArray[np.int32], NDArray[np.uint64], NDArray[np.int32]], num_weights: int = 0
) -> tuple[tuple[Rerun, ...], tuple[Move, ...]]:
    """Convert the runs of the core's search, as its `best` returns them, to records. num_weights: the number of ops at
    the beginning of the problem that represent weights."""
    ops, kept_bits, moved = runs
    is_run = ops >= num_weights
    reruns = tuple(reruns_of(problem, ops[is_run], kept_bits[is_run]))
    is_told = is_run | (ops < 0)
    return reruns, tuple(moves_of(problem, ops[is_told], kept_bits[is_told], moved[is_told], num_weights))


def reruns_of(problem: Problem, ops: NDArray[np.int32], kept: NDArray[np.uint64]) -> Iterator[Rerun]:
    """Convert the runs of the core, each with its op and bits of its own pieces of memory that are kept, to records by
    name."""
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
                tensors=tuple(
                    problem.graph.tensors[lowered.graph_tensor[tensor]].name
                    for place, tensor in enumerate(pieces_of(lowered, original))
                    if given >> place & 1
                ),
            )
        waiting.clear()


def pieces_of(lowered: Lowered, op: int) -> list[int]:
    """List the tensors of a scheduled op that own their memory, in the order of the bits of its runs."""
    begin, end = lowered.output_begin[op : op + 2].tolist()
    return [tensor for tensor in range(begin, end) if lowered.storage[tensor] == tensor]
