"""Conversion of a solution to the rows of a plan: times, and what each step waited for. Works on whole columns at a
time, so that a million ops take seconds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from placewright.plans.record import STARTS_AT_ZERO, WAITS_FOR_LAUNCH, ScheduledOp, Transfer
from placewright.problem import Problem
from placewright.search.run.result import Solution
from placewright.support.garbage import collection_paused

Int = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Schedule:
    """A simulated solution.

    Attributes
    ----------
    start_ns, finish_ns : int64 [num steps]
        Times of the steps, in the solution's order.
    lifetimes : int64 [num lifetimes, 4]
        Lifetimes of tensors in memory, as the core's simulation has them: tensor, device, and the positions of the
        steps at whose start it begins and at whose finish it ends, -1 for tensors that stay.
    """

    problem: Problem
    solution: Solution
    start_ns: NDArray[np.int64]
    finish_ns: NDArray[np.int64]
    lifetimes: NDArray[np.int64]

    @cached_property
    def device_of(self) -> Int:
        devices: Int = self.solution.device_of.astype(np.int64)
        return devices

    @cached_property
    def ops(self) -> Int:
        """Scheduled ops by position."""
        order = self.solution.order
        ops: Int = order[order[:, 1] < 0, 0].astype(np.int64)
        return ops

    @cached_property
    def op_position(self) -> Int:
        """Position of each scheduled op in the order."""
        positions = np.empty(len(self.ops), np.int64)
        positions[self.ops] = np.flatnonzero(self.solution.order[:, 1] < 0)
        return positions

    @cached_property
    def transfer_position(self) -> Int:
        """Positions of the transfers, ascending."""
        return np.flatnonzero(self.solution.order[:, 1] >= 0)

    @cached_property
    def transfers(self) -> tuple[Int, Int, Int]:
        """Scheduled tensor, source and destination of each transfer, by position."""
        tensor, destination = self.solution.order[self.transfer_position].astype(np.int64).T
        return tensor, self.home[tensor], destination

    @cached_property
    def home(self) -> Int:
        """The device on which each scheduled tensor is made."""
        home: Int = self.device_of[self.problem.lowered.producer]
        return home

    @cached_property
    def reads(self) -> tuple[Int, Int]:
        """Reader and scheduled tensor of each input of an op."""
        lowered = self.problem.lowered
        return lowered.reader, lowered.inputs.astype(np.int64)

    @cached_property
    def waits_for(self) -> list[int]:
        """The position, for each step, of a step whose finish decided its start; -1 when it starts at 0, -2 when its
        launch decided."""
        return _waits_for(self)

    @cached_property
    def tensor_names(self) -> list[str]:
        """Name of each scheduled tensor."""
        lowered, graph = self.problem.lowered, self.problem.graph
        producers = lowered.graph_op[lowered.producer].tolist()
        return [
            graph.tensors[index].name if index >= 0 else f"control of {graph.ops[producer].name}"
            for index, producer in zip(lowered.graph_tensor.tolist(), producers, strict=True)
        ]

    def transfer_of(self, tensor: Int, device: Int) -> Int:
        """Find the number of the transfer, by position, that brings each tensor to the device at the same index; -1 for
        none."""
        num_devices = self.problem.machine.num_devices
        sent, _, destination = self.transfers
        keys = sent * num_devices + destination
        by_key = np.argsort(keys, kind="stable")
        wanted = tensor * num_devices + device
        place = np.searchsorted(keys, wanted, sorter=by_key)
        found = by_key[np.minimum(place, len(keys) - 1)] if len(keys) else np.zeros(len(wanted), np.int64)
        there = keys[found] == wanted if len(keys) else np.zeros(len(wanted), np.bool_)
        return np.where(there, found, -1)


def simulate(problem: Problem, solution: Solution) -> Schedule:
    """Compute the times of every step of a solution, and the lifetimes of tensors in memory."""
    outcome = problem.core.simulate(solution.device_of, solution.order)
    return Schedule(
        problem=problem,
        solution=solution,
        start_ns=outcome.start_ns,
        finish_ns=outcome.finish_ns,
        lifetimes=problem.core.lifetimes(solution.device_of, solution.order).astype(np.int64),
    )


@collection_paused()
def scheduled_ops(schedule: Schedule) -> tuple[ScheduledOp, ...]:
    """Build one row per op, by position."""
    lowered, graph = schedule.problem.lowered, schedule.problem.graph
    waits = schedule.waits_for
    up_to = np.concatenate([[0], np.cumsum(lowered.allocated_bytes)])[lowered.output_begin]
    ops, positions = schedule.ops, schedule.op_position[schedule.ops]
    columns = (lowered.graph_op[ops], schedule.device_of[ops], positions, schedule.start_ns[positions],
               schedule.finish_ns[positions], np.diff(up_to)[ops])  # fmt: skip
    return tuple(
        ScheduledOp(
            name=(node := graph.ops[index]).name,
            kind=node.kind,
            module=node.module,
            phase=node.phase,
            source=node.source,
            device=device,
            position=position,
            start_ns=start,
            finish_ns=finish,
            waits_for=waits[position],
            output_bytes=output_bytes,
        )
        for index, device, position, start, finish, output_bytes in zip(*(c.tolist() for c in columns), strict=True)
    )


@collection_paused()
def transfers(schedule: Schedule) -> tuple[Transfer, ...]:
    """Build one row per transfer, by position."""
    lowered, graph = schedule.problem.lowered, schedule.problem.graph
    names, waits = schedule.tensor_names, schedule.waits_for
    tensors, sources, destinations = schedule.transfers
    positions = schedule.transfer_position
    columns = (tensors, lowered.graph_op[lowered.producer[tensors]], sources, destinations,
               lowered.transfer_bytes[tensors], positions, schedule.start_ns[positions],
               schedule.finish_ns[positions])  # fmt: skip
    return tuple(
        Transfer(
            tensor=names[tensor],
            producer=graph.ops[producer].name,
            source=source,
            destination=destination,
            size_bytes=size,
            position=position,
            start_ns=start,
            finish_ns=finish,
            waits_for=waits[position],
        )
        for tensor, producer, source, destination, size, position, start, finish in zip(
            *(column.tolist() for column in columns), strict=True
        )
    )


def _waits_for(schedule: Schedule) -> list[int]:
    """Find for each step the position of a step whose finish decided its start; -1 when it starts at 0, -2 when its
    launch decided.

    Candidates are those of the simulation: the step before it on its device or link, its inputs' producers and
    transfers, and its control predecessors, whose signal takes a link's latency. The last to take effect is the one it
    waited for; where all take effect before the start, the step waited for its launch.
    """
    finish = schedule.finish_ns
    needs = [_steps_before(schedule), _arrivals(schedule)]
    step = np.concatenate([steps for steps, _ in needs])
    need = np.concatenate([needed for _, needed in needs])
    effect = finish[need]
    signals = _signals(schedule)
    step, need, effect = (np.concatenate(pair) for pair in zip((step, need, effect), signals, strict=True))
    waits = latest(len(finish), step, effect, need)
    last = np.full(len(finish), -1)
    np.maximum.at(last, step, effect)
    waits[last < schedule.start_ns] = WAITS_FOR_LAUNCH
    waits[schedule.start_ns == 0] = STARTS_AT_ZERO
    positions: list[int] = waits.tolist()
    return positions


def latest(size: int, index: Int, time: Int, position: Int) -> Int:
    """Find per index the position of its latest entry; among entries at one time, the last in the order; -1 for no
    entry."""
    last_time, last = np.full(size, -1), np.full(size, -1)
    np.maximum.at(last_time, index, time)
    at_last = time == last_time[index]
    np.maximum.at(last, index[at_last], position[at_last])
    return last


def _steps_before(schedule: Schedule) -> tuple[Int, Int]:
    """List pairs of positions: a step, and the step before it on its device or link."""
    num_devices = schedule.problem.machine.num_devices
    _, source, destination = schedule.transfers
    sent = schedule.transfer_position
    busy = [(schedule.device_of[schedule.ops], schedule.op_position[schedule.ops])]
    if schedule.problem.machine.transfer_model == "blocking":
        busy += [(source, sent), (destination, sent)]
    else:
        busy += [(num_devices + source * num_devices + destination, sent)]
    engine, position = (np.concatenate(column) for column in zip(*busy, strict=True))
    in_turn = np.lexsort((position, engine))
    engine, position = engine[in_turn], position[in_turn]
    same = engine[1:] == engine[:-1]
    return position[1:][same], position[:-1][same]


def _arrivals(schedule: Schedule) -> tuple[Int, Int]:
    """List pairs of positions: an op and the step that put an input on its device; a transfer and its tensor's
    producer."""
    made = schedule.op_position[schedule.problem.lowered.producer]
    reader, tensor = schedule.reads
    by_transfer = schedule.transfer_of(tensor, schedule.device_of[reader])
    sent = schedule.transfer_position
    arrived = np.where(by_transfer >= 0, sent[by_transfer], made[tensor]) if len(sent) else made[tensor]
    return np.concatenate([schedule.op_position[reader], sent]), np.concatenate([arrived, made[schedule.transfers[0]]])


def _signals(schedule: Schedule) -> tuple[Int, Int, Int]:
    """List per control dependency that is a signal: the positions of successor and predecessor, and its time of
    arrival."""
    problem, lowered = schedule.problem, schedule.problem.lowered
    if problem.control != "signal":
        return (np.empty(0, np.int64),) * 3
    before = np.repeat(np.arange(len(lowered.graph_op)), np.diff(lowered.control_begin))
    after = lowered.controls.astype(np.int64)
    latency = np.array([[link.latency_ns for link in row] for row in problem.machine.links], np.int64)
    np.fill_diagonal(latency, 0)
    sender = schedule.op_position[before]
    heard = schedule.finish_ns[sender] + latency[schedule.device_of[before], schedule.device_of[after]]
    return schedule.op_position[after], sender, heard
