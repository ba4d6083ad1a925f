"""The plan of several devices within memory limits that no placement at hand keeps: ops run again on their device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain

import numpy as np
from numpy.typing import NDArray

import placewright._core as _core
from placewright.graph import ops_in_order, reordered
from placewright.machines.topology import only
from placewright.problem import Problem
from placewright.problem.lowering import Lowered
from placewright.problem.problem import core_of
from placewright.problem.running_again import again_before
from placewright.rematerialization.proofs import kept
from placewright.rematerialization.reruns import Rerun, check_names
from placewright.rematerialization.solve import (
    NAME,
    Rematerialized,
    in_order,
    pieces_of,
    rerun_evaluations,
    reruns_of,
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
#: What stands at a place of a device: a copy arrives, or is there no more for its transfers, or an op runs.
_ARRIVES, _LEAVES, _RUNS = range(3)


def rematerialize_on_several(
    problem: Problem, run: SearchRun, solutions: Sequence[Solution], keep: Sequence[str] = ()
) -> Rematerialized:
    """The best runs that are found for several placements and orders of first runs; where none keeps the limits, those
    nearest to it.

    problem: of several devices. solutions: are tried, and the placements of `ContiguousSplit`, which cuts a network
    into layers. keep: as `kept` takes it, which says what it raises.
    """
    kept(problem, keep)
    check_names(problem.graph, moves=False)
    cuts = ((each.device_of, each.order) for each in ContiguousSplit().candidates(problem))
    pairs = chain(((each.device_of, each.order) for each in solutions), cuts)
    plans = {(device_of.tobytes(), _ops_of(order).tobytes()): (device_of, _ops_of(order)) for device_of, order in pairs}
    starts: list[_Start] = []
    for each in plans.values():
        if not starts or run.reason_to_stop() is None:
            starts.append(_Start(problem, *each, keep))
    starts = [start for start in starts if start.may_fit()] or starts[:1]
    # A run more takes time, so that a start which is slower without one need not be tried.
    starts.sort(key=lambda start: start.once.metrics.step_time_ns)
    found: list[_Whole] = []

    def best() -> _Whole:
        return min(found, key=lambda whole: whole.metrics.fitness(problem.objective))

    for number, start in enumerate(starts, start=1):
        if found and run.reason_to_stop() is not None:
            break
        is_slower = found and not any(best().over()) and start.once.metrics.step_time_ns >= best().metrics.step_time_ns
        if not is_slower or problem.objective != "step-time":
            found.append(_within_limits(start, run, number / len(starts) / 2))
    if run.reason_to_stop() is None:
        found.append(_within_limits(best().start, run, 1.0))
    whole = best()
    reason = run.reason_to_stop() or "evaluations"
    if not whole.reruns:
        once = run.result(problem, NAME, whole.start.original(whole.solution), stopped_because=reason)
        return Rematerialized(problem=problem, result=once, reruns=())
    result = run.result(whole.problem, NAME, whole.solution, stopped_because=reason)
    return Rematerialized(problem=whole.problem, result=result, reruns=whole.reruns)


def limits_cost_time(problem: Problem, result: Result) -> bool:
    """Whether a baseline that is over the limits takes a shorter step than a result within them: what is held there may
    be made again for less than what the limits cost."""
    return problem.objective == "step-time" and any(
        each.metrics.bytes_over_limit and each.metrics.step_time_ns < result.metrics.step_time_ns
        for each in result.baselines
    )


def roomier(problem: Problem) -> Iterator[Problem]:
    """The problem with more memory, which ops that run again may give: its solutions are worth trying."""
    for factor in ROOMIER:
        limits = (
            None if limit is None or factor is None else int(factor * limit) for limit in problem.memory_limits_bytes
        )
        yield replace(problem, memory_limits_bytes=tuple(limits))


def evaluations_on_several(problem: Problem) -> int:
    """About what a second for each device lasts for."""
    return problem.machine.num_devices * rerun_evaluations(problem)


def _ops_of(order: Int32) -> Int32:
    """Of an order of ops, or of ops and transfers, the ops."""
    return order if order.ndim == 1 else order[order[:, 1] < 0, 0]


class _Start:
    """A placement, and a problem whose graph has the ops in the order of their first runs.

    until: as `again_before` says it, -1 for ops that are kept. once: what each op running once takes.
    """

    def __init__(self, problem: Problem, device_of: Int32, ops: Int32, keep: Sequence[str]) -> None:
        graph, scheduled = problem.graph, problem.lowered.graph_op
        order = ops_in_order(graph, [graph.ops[op].name for op in scheduled[ops]])
        origin = problem.time_origin
        self.problem = replace(
            problem,
            graph=reordered(graph, order),
            time_ns=np.ascontiguousarray(problem.time_ns[order]),
            time_origin=None if origin is None else np.ascontiguousarray(origin[order]),
        )
        self.device_of = device_of[ops]
        self._ops, self._begins = ops, problem.lowered.output_begin
        self.until = again_before(self.problem)
        self.until[kept(self.problem, keep)] = -1
        self.once = _Whole(self, [])

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
        op, tensor = self._ops[np.where(destination < 0, step, 0)], tensors[np.where(destination < 0, 0, step)]
        order = np.stack([np.where(destination < 0, op, tensor), destination], axis=1).astype(np.int32)
        return Solution(device_of=device_of, order=order)


class _Whole:
    """All devices, with reruns of each as ops: simulated in the order of the graph."""

    def __init__(self, start: _Start, reruns: Sequence[Sequence[Rerun]]) -> None:
        self.start = start
        problem, device_of = start.problem, start.device_of
        graph = problem.graph
        on = {
            graph.ops[op].name: device for op, device in zip(problem.lowered.graph_op, device_of.tolist(), strict=True)
        }
        self.reruns = tuple(chain.from_iterable(reruns))
        self.problem = with_reruns(problem, self.reruns, device_of=on)
        on |= {rerun.name: on[rerun.op] for rerun in self.reruns}
        runs, ops = self.problem.lowered.graph_op, self.problem.graph.ops
        self.solution = in_order(self.problem, np.array([on[ops[run].name] for run in runs], np.int32))
        self.metrics = measure(self.problem, self.solution)

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
    reruns: list[tuple[Rerun, ...]] = [()] * problem.machine.num_devices
    limits = list(problem.memory_limits_bytes)
    best = whole = start.once
    for number in range(_ROUNDS):
        over, can_fit = list(whole.over()), True
        for left, (device, excess) in zip(range(len(over), 0, -1), over, strict=True):
            limit = limits[device] or 0
            limits[device] = limit = max(0, limit - excess) if number else limit
            spent = _spent(run)
            part = run.part_until(spent + max(0.0, share - spent) / (left + 1))
            reruns[device], fits = _Part(whole, start, device).search(part, limit)
            can_fit = can_fit and fits
        if not over:
            break
        whole = _Whole(start, reruns)
        best = min(best, whole, key=lambda each: each.metrics.fitness(problem.objective))
        if not can_fit or run.reason_to_stop() is not None:
            break
    return best


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
        self.until = start.until[self.own]
        self.steps = sorted(self._steps(whole, start.device_of))
        self.lowered = self._lower()

    def search(self, run: SearchRun, limit: int) -> tuple[tuple[Rerun, ...], bool]:
        """What the search finds for a limit, and whether that is kept."""
        graph_op, num_steps = self.problem.lowered.graph_op, len(self.steps)
        place_of = np.array([place for place, (_, kind, _) in enumerate(self.steps) if kind == _RUNS], np.int64)
        # Behind the last op here that comes before whatever overwrites what an op reads.
        last = np.searchsorted(self.own, self.until) - 1
        again_until = np.full(num_steps, -1, np.int32)
        again_until[place_of] = np.where(self.until < 0, -1, place_of[np.maximum(last, 0)] + 1)
        time_ns = np.zeros((num_steps, 1), np.int64)
        time_ns[place_of, 0] = self.problem.time_ns[graph_op[self.own], self.device]
        steps = np.arange(num_steps, dtype=np.int32)
        groups = np.zeros(num_steps, np.int32), np.ones(num_steps, np.uint64)
        core = core_of(self.lowered, only(self.problem.machine, self.device), time_ns, groups, (limit,))
        search = _core.RematerializationSearch(problem=core, order=steps, again_before=again_until, seed=run.seed)
        drive(run, search, NAME)
        runs, bits, _ = search.best()
        return tuple(self._reruns(runs.tolist(), bits.tolist())), search.best_bytes_over_limit == 0

    def _reruns(self, runs: list[int], bits: list[int]) -> Iterator[Rerun]:
        """Without those of what is still to be sent: that is held instead, since the first run's is sent."""
        lowered = self.problem.lowered
        to_be_sent: set[int] = set()
        is_first = {place: at for at, place in reversed(list(enumerate(runs)))}
        ops, given = [], []
        for at, (place, own_bits) in reversed(list(enumerate(zip(runs, bits, strict=True)))):
            _, kind, each = self.steps[place]
            if kind == _LEAVES:
                to_be_sent.add(int(lowered.storage[each]))
            if kind != _RUNS:
                continue
            if is_first[place] != at:
                held = (number for number, piece in enumerate(pieces_of(lowered, each)) if piece in to_be_sent)
                own_bits &= ~sum(1 << number for number in held)
                if not own_bits:
                    continue
            ops.append(each)
            given.append(own_bits)
        yield from reruns_of(self.problem, np.array(ops[::-1], np.int32), np.array(given[::-1], np.uint64))

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
                    yield int(place), _LEAVES, tensor
            elif self.device in devices:
                first = min(reader for reader in read_by if device_of[reader] == self.device)
                arrives = np.searchsorted(ends, of_transfers[named, self.device][0], "right")
                yield int(min(arrives, np.searchsorted(own, first))), _ARRIVES, tensor

    def _lower(self) -> Lowered:
        """The steps as ops of one device, in their order."""
        lowered = self.problem.lowered
        made: list[list[int]] = []
        read: list[list[int]] = []
        resident: list[list[int]] = []
        for _, kind, each in self.steps:
            if kind == _RUNS:
                made.append(list(range(*lowered.output_begin[each : each + 2].tolist())))
                row = slice(*lowered.input_begin[each : each + 2].tolist())
                read.append([tensor for tensor in lowered.inputs[row].tolist() if lowered.graph_tensor[tensor] >= 0])
                row = slice(*lowered.resident_begin[each : each + 2].tolist())
                resident.append(lowered.residents[row].tolist())
            else:
                made.append([each] if kind == _ARRIVES else [])
                read.append([each] if kind == _LEAVES else [])
                resident.append([])
        tensors = np.array(list(chain.from_iterable(made)), np.int32)
        place_of = np.zeros(len(lowered.graph_tensor), np.int32)
        place_of[tensors] = np.arange(len(tensors))
        residents = np.unique(np.array(list(chain.from_iterable(resident)), np.int32))
        kinds = np.array([kind for _, kind, _ in self.steps])
        arrived = np.repeat(kinds == _ARRIVES, list(map(len, made)))
        graph_op, workspace = np.full(len(kinds), -1, np.int32), np.zeros(len(kinds), np.int64)
        graph_op[kinds == _RUNS] = lowered.graph_op[self.own]
        workspace[kinds == _RUNS] = lowered.workspace_bytes[self.own]
        return Lowered(
            graph_op=graph_op,
            graph_tensor=lowered.graph_tensor[tensors],
            output_begin=_begins(made),
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
