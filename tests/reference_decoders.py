"""The decoders other than the paper's, slow and obvious: docs/algorithms.md in plain loops."""

from __future__ import annotations

import numpy as np
from reference import Order, _devices, _op_time, _signal_time, _transfer_time, structure_of

import placewright._core as _core
from placewright.problem import Problem
from placewright.problem.constraints import placement_groups

Devices = list[int]


def decode(problem: Problem, keys: np.ndarray, decoder: str) -> tuple[Devices, Order]:
    """Devices and order that problem.core.decode should return. The devices of earliest-finish and the moments of
    evictions come from the core; other tests check them against the simulation. Segment-fill: for problems without
    groups and memory."""
    if decoder == "segment-fill":
        return SegmentFill(problem, keys).run()
    if decoder == "earliest-finish":
        ops = op_order(problem, keys)
        by_memory = problem.objective == "peak-memory"
        devices = _core.list_schedule(problem.core, np.array(ops, np.int32), by_memory)[0].tolist()
        return devices, lazy(problem, devices, ops)
    devices = _devices(problem, keys)
    first = structure_of(problem).num_ops * problem.machine.num_devices
    ops = op_order(problem, keys[first : first + len(devices)])
    order = {"lazy": lazy, "early-free": early_free, "evict": evict}[decoder]
    return devices, order(problem, devices, ops)


def op_order(problem: Problem, priorities: np.ndarray) -> list[int]:
    """A topological order that always takes the ready op of highest priority, the lowest index among equals."""
    structure = structure_of(problem)
    taken: list[int] = []
    while len(taken) < structure.num_ops:
        ready = [
            op
            for op in range(structure.num_ops)
            if op not in taken and {structure.producer[t] for t in structure.inputs[op]} <= set(taken)
            if set(structure.predecessors[op]) <= set(taken)
        ]
        taken.append(max(ready, key=lambda op: (priorities[op], -op)))
    return taken


def lazy(problem: Problem, device_of: Devices, ops: list[int]) -> Order:
    """An order with each transfer right before its first use. If transfers block and time is the objective, all that
    waits between the two devices moves with it: first to the reader's device, each way in the order it was made."""
    batched = problem.machine.transfer_model == "blocking" and problem.objective == "step-time"
    structure = structure_of(problem)
    order: Order = []
    needed = structure.needed_transfers(device_of)
    for op in ops:
        here = device_of[op]
        for tensor in structure.inputs[op]:
            if (tensor, here) not in needed or (tensor, here) in order:
                continue
            there = device_of[structure.producer[tensor]]
            made = [t for before, mark in order if mark < 0 for t in structure.outputs[before]]
            waiting = [
                (t, to)
                for source, to in ((there, here), (here, there))
                for t in made
                if device_of[structure.producer[t]] == source and (t, to) in needed and (t, to) not in order
            ]
            order += waiting if batched else [(tensor, here)]
        order.append((op, -1))
    return order


def early_free(problem: Problem, device_of: Devices, ops: list[int]) -> Order:
    """An order with each transfer as soon as it is the last use of its memory at home, or else before its first use."""
    structure, storage = structure_of(problem), [int(s) for s in problem.lowered.storage]
    order: Order = []
    needed = structure.needed_transfers(device_of)

    def free_by_sending(memory: int) -> None:
        sharing = [t for t, owner in enumerate(storage) if owner == memory]
        if any(problem.lowered.live_out[t] for t in sharing):
            return
        uses = [step for step in needed if step[0] in sharing and step not in order]
        for op in range(structure.num_ops):
            if device_of[op] == device_of[structure.producer[memory]] and (op, -1) not in order:
                uses += [(op, -1) for t in structure.inputs[op] if t in sharing]
        if len(uses) == 1 and uses[0][1] >= 0 and (structure.producer[uses[0][0]], -1) in order:
            order.append(uses[0])

    for op in ops:
        for tensor in structure.inputs[op]:
            if (tensor, device_of[op]) in needed and (tensor, device_of[op]) not in order:
                order.append((tensor, device_of[op]))
                free_by_sending(storage[tensor])
        order.append((op, -1))
        read = [storage[t] for t in structure.inputs[op] if device_of[structure.producer[t]] == device_of[op]]
        last_read = [memory for place, memory in enumerate(read) if memory not in read[place + 1 :]]
        for memory in [*last_read, *(storage[t] for t in structure.outputs[op])]:
            free_by_sending(memory)
    return order


def evict(problem: Problem, device_of: Devices, ops: list[int]) -> Order:
    """The core's order with evictions that keep the limits and, if peak memory is the objective, 85% of the largest
    peak of the core's late order."""
    devices, sequence = np.array(device_of, np.int32), np.array(ops, np.int32)
    target = [2**62 if limit is None else limit for limit in problem.memory_limits_bytes]
    if problem.objective == "peak-memory":
        late = _core.with_evictions(problem.core, devices, sequence, np.full(len(target), 2**62))
        peak = max(problem.core.simulate(devices, late).peak_bytes.tolist())
        target = [min(limit, int(0.85 * peak)) for limit in target]
    order = _core.with_evictions(problem.core, devices, sequence, np.array(target, np.int64))
    return [(index, destination) for index, destination in order.tolist()]


class SegmentFill:
    """Segment-fill: segments between barriers. `segment_of`: the one in which an op ran. Each step looks up everything
    anew."""

    def __init__(self, problem: Problem, priorities: np.ndarray) -> None:
        self.problem, self.structure = problem, structure_of(problem)
        self.blocking = problem.machine.transfer_model == "blocking"
        self.devices = range(problem.machine.num_devices)
        _, allowed = placement_groups(problem.graph, problem.lowered, problem.machine, problem.constraints)
        self.allowed = [[d for d in self.devices if int(mask) >> d & 1] for mask in allowed]
        ranked = sorted(range(self.structure.num_ops), key=lambda op: (-int(priorities[op]), op))
        self.rank = [ranked.index(op) for op in range(self.structure.num_ops)]
        self.device_of: dict[int, int] = {}
        self.segment_of: dict[int, int] = {}
        self.segment = 0
        self.finish: dict[int, int] = {}
        self.base, self.load = [0 for _ in self.devices], [0 for _ in self.devices]
        self.link_free: dict[tuple[int, int], int] = {}
        self.arrival: dict[tuple[int, int], int] = {}  # of everything sent
        self.transfers: Order = []
        self.ops: Order = []
        self.order: Order = []

    def run(self) -> tuple[Devices, Order]:
        while len(self.device_of) < self.structure.num_ops:
            if not self.run_next():
                self.barrier()
        self.barrier()
        return [self.device_of[op] for op in range(self.structure.num_ops)], self.order

    def barrier(self) -> None:
        self.order += self.transfers + self.ops
        self.transfers, self.ops, self.segment = [], [], self.segment + 1
        self.base = [base + load for base, load in zip(self.base, self.load, strict=True)]
        self.load = [0 for _ in self.devices]

    def usable(self) -> dict[int, list[int]]:
        """Ready ops, each with the devices where it may run before the next barrier."""
        usable = {}
        for op in range(self.structure.num_ops):
            needs = [self.structure.producer[t] for t in self.structure.inputs[op]]
            if op in self.device_of or not {*needs, *self.structure.predecessors[op]} <= self.device_of.keys():
                continue
            made_on = {self.device_of[p] for p in needs if self.segment_of[p] == self.segment}
            usable[op] = [d for d in self.allowed[op] if made_on <= {d}]
        return usable

    def run_next(self) -> bool:
        usable = self.usable()
        by_clock = sorted(self.devices, key=lambda d: (self.base[d] + self.load[d], d))
        for device in by_clock:
            here = [op for op in usable if device in usable[op]]
            if here:
                op = min(here, key=self.rank.__getitem__)
                bound = any(
                    self.segment_of[self.structure.producer[t]] == self.segment for t in self.structure.inputs[op]
                )
                places = [device] if bound else [d for d in by_clock if d in usable[op]]
                self.place(op, min(places, key=lambda d: self.estimate(op, d)))
                return True
            gain = any(device in self.allowed[op] for op in usable)
            if device == by_clock[0] and gain:
                return False
        return False

    def estimate(self, op: int, device: int) -> int:
        base, ready = self.base[device], 0
        for tensor in self.structure.inputs[op]:
            maker = self.structure.producer[tensor]
            source = self.device_of[maker]
            if source == device:
                continue
            time = _transfer_time(self.problem, tensor, source, device)
            if (tensor, device) in self.arrival:
                ready = max(ready, 0 if self.blocking else self.arrival[tensor, device])
            elif self.blocking:
                base = max(base, self.base[source]) + time
            else:
                ready = max(ready, max(self.link_free.get((source, device), 0), self.finish[maker]) + time)
        start = max(base + self.load[device], ready)
        if self.problem.control == "signal":
            for before in self.structure.predecessors[op]:
                signal = self.finish[before] + _signal_time(self.problem, self.device_of[before], device)
                start = max(start, signal)
        return start + _op_time(self.problem, op, device)

    def place(self, op: int, device: int) -> None:
        for tensor in self.structure.inputs[op]:
            maker = self.structure.producer[tensor]
            source = self.device_of[maker]
            if source == device or (tensor, device) in self.arrival:
                continue
            time = _transfer_time(self.problem, tensor, source, device)
            before = self.base[source] if self.blocking else self.link_free.get((source, device), 0)
            after = max(before, self.base[device] if self.blocking else self.finish[maker]) + time
            if self.blocking:
                self.base[source] = self.base[device] = after
            self.link_free[source, device] = self.arrival[tensor, device] = after
            self.transfers.append((tensor, device))
        self.finish[op] = self.estimate(op, device)
        self.load[device] = self.finish[op] - self.base[device]
        self.device_of[op], self.segment_of[op] = device, self.segment
        self.ops.append((op, -1))
