"""The plan of several devices within memory limits that no placement at hand keeps: ops run again on their device, or
what they make is moved to the host and back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from placewright.graph import HOST_TARGET, LEAVE_TARGET, Graph
from placewright.machines.host import HostMemory
from placewright.machines.topology import only
from placewright.problem import Problem
from placewright.problem.lowering import Lowered
from placewright.problem.problem import core_of
from placewright.problem.running_again import again_before, may_move
from placewright.rematerialization.proofs import kept, kept_in_place
from placewright.rematerialization.reruns import Move, Rerun, check_names
from placewright.rematerialization.solve import (
    NAME,
    Rematerialized,
    in_order,
    in_other_order,
    moves_of,
    ops_of,
    pieces_of,
    rerun_evaluations,
    reruns_of,
    search_beside,
    with_reruns,
)
from placewright.search.constructive.contiguous_split import ContiguousSplit
from placewright.search.run.drive import drive
from placewright.search.run.result import Result, Solution, measure
from placewright.search.run.search_run import SearchRun

Int32 = NDArray[np.int32]
#: How often a device is searched at most, each time below what the whole was over its limit.
_ROUNDS = 5
#: With so many times the memory, and without limits, placements and orders are found that reruns may make fit.
ROOMIER: tuple[float | None, ...] = (1.4, 2.0, None)
#: Until where of the budget all starts are searched, the best of them, and placements near it; the rest is the best's.
_UNTIL_STARTS, _UNTIL_BEST, _UNTIL_NEAR = 0.25, 0.5, 0.75
#: How many blocks of ops are moved to another device, and the largest, as a share of all ops.
_TRIALS, _LARGEST_BLOCK = 32, 0.25
#: What stands at a place of a device: a copy arrives, a tensor is there no more for its transfers, the device waits, or
#: an op runs.
_ARRIVES, _SENT, _WAITS, _RUNS = range(4)


class _Found(NamedTuple):
    """What runs again on a device and what it moves to the host."""

    reruns: tuple[Rerun, ...] = ()
    moves: tuple[Move, ...] = ()


def rematerialize_on_several(
    problem: Problem,
    run: SearchRun,
    solutions: Sequence[Solution],
    keep: Sequence[str] = (),
    host: HostMemory | None = None,
) -> Rematerialized:
    """The best runs and moves that are found for several placements and orders of first runs; where none keeps the
    limits, those nearest to it.

    problem: of several devices. solutions: are tried, and the placements of `ContiguousSplit`, which cuts a network
    into layers. keep: as `kept` takes it, which says what it raises. host: where tensors may be moved to.
    """
    kept(problem, keep)
    check_names(problem.graph, moves=host is not None)
    cuts = ((each.device_of, each.order) for each in ContiguousSplit().candidates(problem))
    pairs = chain(((each.device_of, each.order) for each in solutions), cuts)
    plans = {(device_of.tobytes(), ops_of(order).tobytes()): (device_of, ops_of(order)) for device_of, order in pairs}
    starts: list[_Start] = []
    for each in plans.values():
        if not starts or run.reason_to_stop() is None:
            starts.append(_started(problem, *each, keep, host))
    starts = [start for start in starts if start.may_fit()] or starts[:1]
    # A run more takes time, so that a start which is slower without one need not be tried.
    starts.sort(key=lambda start: start.once.metrics.step_time_ns)
    found: list[_Whole] = []

    def best() -> _Whole:
        return min(found, key=_Whole.fitness)

    for number, start in enumerate(starts, start=1):
        if found and run.reason_to_stop() is not None:
            break
        if not found or not start.is_slower_than(best()):
            found.append(_within_limits(start, run, _UNTIL_STARTS * number / len(starts)))
    if run.reason_to_stop() is None:
        found.append(_within_limits(best().start, run, _UNTIL_BEST))
    found += list(_near(found, run))
    if run.reason_to_stop() is None:
        found.append(_within_limits(best().start, run, 1.0))
    whole = best()
    reason = run.reason_to_stop() or "evaluations"
    if not whole.reruns and not whole.moves:
        once = run.result(problem, NAME, whole.start.original(whole.solution), stopped_because=reason)
        return Rematerialized(problem=problem, result=once, reruns=())
    result = run.result(whole.problem, NAME, whole.solution, stopped_because=reason)
    return Rematerialized(problem=whole.problem, result=result, reruns=whole.reruns, moves=whole.moves)


def _near(found: Sequence[_Whole], run: SearchRun) -> Iterator[_Whole]:
    """Better ones, whose placements have a block of ops on another device. One half of the trials begins with the most
    promising, which may be over the limits, the other with the best."""
    source, best = np.random.default_rng(run.seed), min(found, key=_Whole.promise)
    for trial in range(_TRIALS):
        if trial == _TRIALS // 2:
            best = min(best, *found, key=_Whole.fitness)
        if run.reason_to_stop() is not None:
            break
        start = best.start.placed(_with_block_elsewhere(best, source))
        if start is None or start.is_slower_than(best):
            continue
        spent = _spent(run)
        whole = _within_limits(start, run, spent + max(0.0, _UNTIL_NEAR - spent) / (_TRIALS - trial))
        if whole.fitness() <= best.fitness():
            best = whole
            yield best


def _with_block_elsewhere(whole: _Whole, source: np.random.Generator) -> Int32:
    """The placement with a run of ops, in the order of the graph, on one device: where some devices are within their
    limits, on one of these. Ops that pins or groups keep off it stay."""
    start = whole.start
    (group, allowed), num_ops = start.problem.groups, len(start.device_of)
    over = {device for device, _ in whole.over()}
    devices = range(start.problem.machine.num_devices)
    to = int(source.choice([device for device in devices if device not in over] or devices))
    first, length = int(source.integers(num_ops)), source.uniform(0.0, np.log(max(1.0, _LARGEST_BLOCK * num_ops)))
    block = np.arange(first, min(num_ops, first + int(np.exp(length))))
    may_go = allowed[block] >> np.uint64(to) & np.uint64(1) == 1
    return np.where(np.isin(group, group[block[may_go]]), to, start.device_of).astype(np.int32)


def limits_cost_time(problem: Problem, result: Result, without_limits: Callable[[], Result]) -> bool:
    """Whether a plan that the limits rule out takes a shorter step than a result within them: what is held there may
    be made again for less than what the limits cost. Such a plan is one of the baselines; a method that has none is
    asked what it finds without limits, where these can rule out anything."""
    if problem.objective != "step-time":
        return False
    if not result.baselines and _limits_may_bind(problem):
        return without_limits().metrics.step_time_ns < result.metrics.step_time_ns
    return any(
        each.metrics.bytes_over_limit and each.metrics.step_time_ns < result.metrics.step_time_ns
        for each in result.baselines
    )


def _limits_may_bind(problem: Problem) -> bool:
    """Whether all that a step ever holds, at once, is more than some limit."""
    lowered = problem.lowered
    tensors = np.maximum(lowered.allocated_bytes, lowered.copy_bytes).sum()
    most = int(tensors + lowered.resident_bytes.sum() + lowered.workspace_bytes.max())
    return any(limit is not None and limit < most for limit in problem.memory_limits_bytes)


def roomier(problem: Problem, factor: float | None) -> Problem:
    """The problem with so many times the memory, without limits for None, which ops that run again may give: its
    solutions are worth trying."""
    limits = (None if limit is None or factor is None else int(factor * limit) for limit in problem.memory_limits_bytes)
    return replace(problem, memory_limits_bytes=tuple(limits))


def evaluations_on_several(problem: Problem) -> int:
    """About what two seconds for each device last for."""
    return 2 * problem.machine.num_devices * rerun_evaluations(problem)


def _started(problem: Problem, device_of: Int32, ops: Int32, keep: Sequence[str], host: HostMemory | None) -> _Start:
    start = _Start(problem, device_of, ops, keep, host)
    if host is None:
        return start
    # The host works off in one order what concerns all devices, none of which should wait for another there.
    return _Start(problem, device_of, start.by_time(), keep, host)


def _devices_of(graph: Graph, runs: Int32, on: Mapping[str, int], host: int) -> Int32:
    """The device of each run of a graph with moves. on: of ops and reruns, by name."""

    def device(run: int) -> int:
        op = graph.ops[run]
        if op.target == HOST_TARGET:
            return host
        return on[graph.ops[graph.producer_of[op.inputs[0]]].name if op.target == LEAVE_TARGET else op.name]

    return np.array([device(run) for run in runs.tolist()], np.int32)


class _Start:
    """A placement, and a problem whose graph has the ops in the order of their first runs.

    until: as `again_before` says it, -1 for ops that are kept. movable: 1 for tensors that may be moved. once: what
    each op running once takes.
    """

    def __init__(
        self, problem: Problem, device_of: Int32, ops: Int32, keep: Sequence[str], host: HostMemory | None
    ) -> None:
        self.problem = in_other_order(problem, ops)
        self.device_of = device_of[ops]
        self._ops, self._begins = ops, problem.lowered.output_begin
        self.until = again_before(self.problem).copy()
        self.until[kept(self.problem, keep)] = -1
        self.host = host
        stays = kept_in_place(self.problem, keep)[self.problem.lowered.producer]
        self.movable = np.where(stays, 0, may_move(self.problem)).astype(np.uint8)
        self.once = _Whole(self, ())

    def by_time(self) -> Int32:
        """The ops, in the numbers of the given problem, by when they start if each runs once."""
        graph, begins = self.problem.graph, self.once.times[0]
        starts = [begins[graph.ops[op].name][0] for op in self.problem.lowered.graph_op]
        return self._ops[np.argsort(starts, kind="stable")]

    def placed(self, device_of: Int32) -> _Start | None:
        """The same with another placement; None where that is the same, or cannot fit whatever runs again."""
        moved = copy(self)
        moved.device_of = device_of
        if (device_of == self.device_of).all() or not moved.may_fit():
            return None
        moved.once = _Whole(moved, ())
        return moved

    def is_slower_than(self, whole: _Whole) -> bool:
        """Whether it takes no less time without a rerun, where that is what counts."""
        counts = self.problem.objective == "step-time" and not whole.metrics.bytes_over_limit
        return counts and self.once.metrics.step_time_ns >= whole.metrics.step_time_ns

    def may_fit(self) -> bool:
        """Whether what each device holds at the end of the step, whatever runs again, is within its limit."""
        lowered = self.problem.lowered
        for device, limit in enumerate(self.problem.memory_limits_bytes):
            is_here = self.device_of == device
            residents = np.unique(lowered.residents[is_here[lowered.resident_reader]])
            stays = is_here[lowered.producer] & (lowered.live_out == 1)
            held = int(lowered.resident_bytes[residents].sum() + lowered.allocated_bytes[stays].sum())
            if limit is not None and held > limit:
                return False
        return True

    def original(self, solution: Solution) -> Solution:
        """A solution of the problem here, in the numbers of the given one."""
        device_of = np.empty_like(self.device_of)
        device_of[self._ops] = self.device_of
        tensors = np.concatenate([np.arange(*self._begins[op : op + 2]) for op in self._ops.tolist()])
        step, destination = solution.order.T
        is_op = destination < 0
        order = np.empty_like(solution.order)
        order[is_op] = np.stack([self._ops[step[is_op]], destination[is_op]], axis=1)
        order[~is_op] = np.stack([tensors[step[~is_op]], destination[~is_op]], axis=1)
        return Solution(device_of=device_of, order=order)


class _Whole:
    """All devices, with reruns and moves of each as ops: simulated in the order of the graph."""

    def __init__(self, start: _Start, found: Sequence[_Found]) -> None:
        self.start = start
        problem, device_of = start.problem, start.device_of
        graph = problem.graph
        on = {
            graph.ops[op].name: device for op, device in zip(problem.lowered.graph_op, device_of.tolist(), strict=True)
        }
        self.reruns = tuple(chain.from_iterable(each.reruns for each in found))
        self.moves = tuple(chain.from_iterable(each.moves for each in found))
        self.problem = with_reruns(problem, self.reruns, self.moves, start.host, on)
        on |= {rerun.name: on[rerun.op] for rerun in self.reruns}
        runs = self.problem.lowered.graph_op
        self.solution = in_order(self.problem, _devices_of(self.problem.graph, runs, on, problem.machine.num_devices))
        self.metrics = measure(self.problem, self.solution)

    def fitness(self) -> tuple[int, int, int]:
        return self.metrics.fitness(self.problem.objective)

    def promise(self) -> float:
        """The step time, longer by the share by which devices are over their limits: less is better."""
        limits = self.problem.memory_limits_bytes
        return self.metrics.step_time_ns * (1 + sum(excess / max(1, limits[each] or 0) for each, excess in self.over()))

    def over(self) -> Iterator[tuple[int, int]]:
        """Devices over their limit, with the bytes by which they are."""
        for device, limit in enumerate(self.problem.memory_limits_bytes):
            if limit is not None and self.metrics.peak_bytes[device] > limit:
                yield device, self.metrics.peak_bytes[device] - limit

    @cached_property
    def times(self) -> tuple[dict[str, tuple[int, int]], dict[tuple[int, int], tuple[int, int]]]:
        """When ops start and finish, by name, and transfers, by tensor of the graph and destination."""
        simulated = self.problem.core.simulate(self.solution.device_of, self.solution.order)
        lowered, ops = self.problem.lowered, self.problem.graph.ops
        of_ops, of_transfers = {}, {}
        spans = zip(
            self.solution.order.tolist(), simulated.start_ns.tolist(), simulated.finish_ns.tolist(), strict=True
        )
        for (step, destination), start, finish in spans:
            if destination < 0:
                of_ops[ops[lowered.graph_op[step]].name] = start, finish
            else:
                of_transfers[int(lowered.graph_tensor[step]), destination] = start, finish
        return of_ops, of_transfers


def _within_limits(start: _Start, run: SearchRun, share: float) -> _Whole:
    """The best of a start: each device over its limit is searched alone, and again below what the whole is over, until
    that is nothing. share: of the run's budget, until which it may be spent."""
    problem = start.problem
    found = [_Found()] * problem.machine.num_devices
    limits, rooms = list(problem.memory_limits_bytes), _rooms(start)
    best = whole = start.once
    for number in range(_ROUNDS):
        over, can_fit = dict(whole.over()), True
        if (at_host := over.pop(len(found), 0)) > 0:
            # Each gets less by the same share.
            of = whole.metrics.peak_bytes[-1]
            rooms = [room and room * max(0, of - 2 * at_host) // (of - at_host) for room in rooms]
            over = {device: over.get(device, 0) for device, each in enumerate(found) if device in over or each.moves}
        for left, (device, excess) in zip(range(len(over), 0, -1), over.items(), strict=True):
            limit = limits[device] or 0
            limits[device] = limit = max(0, limit - excess) if number else limit
            spent = _spent(run)
            part = run.part_until(spent + max(0.0, share - spent) / (left + 1))
            host = start.host and replace(start.host.beside(device), memory_bytes=rooms[device])
            found[device], fits = _Part(whole, start, device).search(part, limit, host)
            can_fit = can_fit and fits
        if not over:
            break
        whole = _Whole(start, found)
        best = min(best, whole, key=_Whole.fitness)
        if not can_fit or run.reason_to_stop() is not None:
            break
    return best


def _rooms(start: _Start) -> list[int | None]:
    """What each device may use of the host's memory: as much of it as it has of what all are over their limits."""
    devices, over = range(start.problem.machine.num_devices), dict(start.once.over())
    if start.host is None or (limit := start.host.memory_bytes) is None:
        return [None for _ in devices]
    return [limit * over.get(device, 0) // max(1, sum(over.values())) for device in devices]


def _spent(run: SearchRun) -> float:
    """Which share of a run's budget is spent, of evaluations or time."""
    of_time = 0.0 if run.budget.seconds is None else run.seconds / run.budget.seconds
    return max(run.evaluations / run.budget.evaluations, of_time)


class _Part:
    """What one device does, as a problem of its own: its ops in the order of the graph, what arrives from other
    devices where its transfer starts, and what it sends, which is held until the last transfer of it ends."""

    def __init__(self, whole: _Whole, start: _Start, device: int) -> None:
        self.problem, self.device = start.problem, device
        self.own = np.flatnonzero(start.device_of == device)
        self.until, self.movable = start.until[self.own], start.movable
        waits = self._waits(start.once) if start.host is not None else ()
        self.steps = sorted(chain(self._steps(whole, start.device_of), waits))
        self.kinds = np.array([kind for _, kind, _ in self.steps])
        begin = self.problem.lowered.output_begin
        self.made = [
            list(range(*begin[each : each + 2].tolist())) if kind == _RUNS else [each] if kind == _ARRIVES else []
            for _, kind, each in self.steps
        ]
        #: What the steps make, in the numbers of the whole problem, and whether it is a copy that arrives.
        self.tensors = np.array(list(chain.from_iterable(self.made)), np.int32)
        self.arrived = np.repeat(self.kinds == _ARRIVES, list(map(len, self.made)))
        self.lowered = self._lower()

    def search(self, run: SearchRun, limit: int, host: HostMemory | None) -> tuple[_Found, bool]:
        """What the search finds for a limit, and whether that is kept."""
        num_steps, place_of = len(self.steps), np.flatnonzero(self.kinds == _RUNS)
        # Behind the last op here that comes before whatever overwrites what an op reads.
        last = np.searchsorted(self.own, self.until) - 1
        again_until = np.full(num_steps, -1, np.int32)
        again_until[place_of] = np.where(self.until < 0, -1, place_of[np.maximum(last, 0)] + 1)
        time_ns = np.zeros((num_steps, 1), np.int64)
        time_ns[place_of, 0] = self.problem.time_ns[self.problem.lowered.graph_op[self.own], self.device]
        time_ns[self.kinds == _WAITS, 0] = [each for _, kind, each in self.steps if kind == _WAITS]
        groups = np.zeros(num_steps, np.int32), np.ones(num_steps, np.uint64)
        core = core_of(self.lowered, only(self.problem.machine, self.device), time_ns, groups, (limit,))
        movable = None if host is None else np.where(self.arrived, 0, self.movable[self.tensors]).astype(np.uint8)
        search = search_beside(core, again_until, run.seed, host, movable)
        drive(run, search, NAME)
        runs, bits, moved = self._told(*(each.tolist() for each in search.best()))
        is_run = runs >= 0
        reruns = tuple(reruns_of(self.problem, runs[is_run], bits[is_run]))
        moves = tuple(moves_of(self.problem, runs, bits, moved))
        return _Found(reruns=reruns, moves=moves), search.best_bytes_over_limit == 0

    def _told(self, runs: list[int], bits: list[int], moved: list[int]) -> tuple[Int32, NDArray[np.uint64], Int32]:
        """The runs and moves of the core in the numbers of the whole problem, without those of what is still to be
        sent: that is held instead, since the first run's is sent. It may leave behind that."""
        lowered = self.problem.lowered
        sent_at = {
            int(lowered.storage[self.steps[place][2]]): at
            for at, place in enumerate(runs)
            if place >= 0 and self.steps[place][1] == _SENT
        }
        late: dict[int, list[int]] = {}
        told: list[tuple[int, int, int]] = []
        has_run: set[int] = set()
        for at, (place, own_bits, tensor) in enumerate(zip(runs, bits, moved, strict=True)):
            if place < 0:
                tensor = int(self.tensors[tensor])
                if sent_at.get(tensor, -1) < at:
                    told.append((-1, own_bits, tensor))
                elif not own_bits:
                    late.setdefault(sent_at[tensor], []).append(tensor)
                continue
            _, kind, each = self.steps[place]
            if kind == _SENT:
                told += ((-1, 0, tensor) for tensor in late.get(at, ()))
            if kind != _RUNS:
                continue
            if place in has_run:
                pieces = enumerate(pieces_of(lowered, each))
                own_bits &= ~sum(1 << number for number, piece in pieces if sent_at.get(piece, -1) > at)
                if not own_bits:
                    continue
            has_run.add(place)
            told.append((each, own_bits, -1))
        returned = {tensor for each, own_bits, tensor in told if each < 0 and own_bits}
        told = [each for each in told if each[0] >= 0 or each[2] in returned]
        ops, given, tensors = (list(column) for column in zip(*told, strict=True)) if told else ([], [], [])
        return np.array(ops, np.int32), np.array(given, np.uint64), np.array(tensors, np.int32)

    def _steps(self, whole: _Whole, device_of: Int32) -> Iterator[tuple[int, int, int]]:
        """Each with the op of this device before which it stands, what it is, and the op or tensor."""
        graph, lowered, own = self.problem.graph, self.problem.lowered, self.own
        of_ops, of_transfers = whole.times
        spans = np.array([of_ops[graph.ops[op].name] for op in lowered.graph_op[own]], np.int64).reshape(-1, 2)
        begins, ends = spans.T
        yield from ((place, _RUNS, op) for place, op in enumerate(own.tolist()))
        readers: dict[int, list[int]] = {}
        for tensor, reader in zip(lowered.inputs.tolist(), lowered.reader.tolist(), strict=True):
            readers.setdefault(tensor, []).append(reader)
        for tensor, read_by in readers.items():
            # An empty tensor that only says when an op is done takes no memory.
            if (named := int(lowered.graph_tensor[tensor])) < 0:
                continue
            maker, devices = int(lowered.producer[tensor]), {int(device_of[reader]) for reader in read_by}
            if device_of[maker] == self.device:
                sent = [of_transfers[named, each][1] for each in devices - {self.device}]
                if sent:
                    place = max(np.searchsorted(begins, max(sent), "left"), np.searchsorted(own, maker) + 1)
                    yield int(place), _SENT, tensor
            elif self.device in devices:
                first = min(reader for reader in read_by if device_of[reader] == self.device)
                arrives = np.searchsorted(ends, of_transfers[named, self.device][0], "right")
                yield int(min(arrives, np.searchsorted(own, first))), _ARRIVES, tensor

    def _waits(self, once: _Whole) -> Iterator[tuple[int, int, int]]:
        """How long the device does nothing before its ops if each runs once: meanwhile the links may carry moves."""
        of_ops, _ = once.times
        graph, lowered = self.problem.graph, self.problem.lowered
        done = 0
        for place, op in enumerate(lowered.graph_op[self.own].tolist()):
            begin, end = of_ops[graph.ops[op].name]
            if begin > done:
                yield place, _WAITS, begin - done
            done = end

    def _lower(self) -> Lowered:
        """The steps as ops of one device, in their order."""
        lowered = self.problem.lowered
        read: list[list[int]] = []
        resident: list[list[int]] = []
        for _, kind, each in self.steps:
            if kind == _RUNS:
                row = slice(*lowered.input_begin[each : each + 2].tolist())
                read.append([tensor for tensor in lowered.inputs[row].tolist() if lowered.graph_tensor[tensor] >= 0])
                row = slice(*lowered.resident_begin[each : each + 2].tolist())
                resident.append(lowered.residents[row].tolist())
            else:
                read.append([each] if kind == _SENT else [])
                resident.append([])
        tensors, arrived, kinds = self.tensors, self.arrived, self.kinds
        place_of = np.zeros(len(lowered.graph_tensor), np.int32)
        place_of[tensors] = np.arange(len(tensors))
        residents = np.unique(np.array(list(chain.from_iterable(resident)), np.int32))
        graph_op, workspace = np.full(len(kinds), -1, np.int32), np.zeros(len(kinds), np.int64)
        graph_op[kinds == _RUNS] = lowered.graph_op[self.own]
        workspace[kinds == _RUNS] = lowered.workspace_bytes[self.own]
        return Lowered(
            graph_op=graph_op,
            graph_tensor=lowered.graph_tensor[tensors],
            output_begin=_begins(self.made),
            allocated_bytes=np.where(arrived, lowered.copy_bytes[tensors], lowered.allocated_bytes[tensors]),
            transfer_bytes=lowered.transfer_bytes[tensors],
            copy_bytes=lowered.copy_bytes[tensors],
            storage=place_of[np.where(arrived, tensors, lowered.storage[tensors])],
            live_out=np.where(arrived, 0, lowered.live_out[tensors]).astype(np.uint8),
            input_begin=_begins(read),
            inputs=place_of[list(chain.from_iterable(read))].astype(np.int32),
            control_begin=np.zeros(len(self.steps) + 1, np.int32),
            controls=np.zeros(0, np.int32),
            resident_begin=_begins(resident),
            residents=np.searchsorted(residents, list(chain.from_iterable(resident))).astype(np.int32),
            graph_resident=lowered.graph_resident[residents],
            resident_bytes=lowered.resident_bytes[residents],
            workspace_bytes=workspace,
            together=(),
        )


def _begins(rows: Sequence[Sequence[int]]) -> Int32:
    return np.cumsum([0, *map(len, rows)], dtype=np.int32)
