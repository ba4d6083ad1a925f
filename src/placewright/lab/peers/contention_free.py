"""A schedule under construction in the model of the classic list schedulers: transfers take time but never queue."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from placewright.problem import Problem
from placewright.problem.lowering import Lowered


class ContentionFree:
    """A partial schedule: devices and times of ops when links carry any number of tensors at once and devices compute
    meanwhile, as in Topcuoglu, Hariri and Wu 2002 (section 2). Blocking transfers are also planned in this way.

    times: ns [op][device]. device_of: -1 while an op is not placed. start, finish: ns [op].
    inputs: tensors each op reads. before: ops each op must follow without reading from them. successors: the ops that
    wait for each op, once for every tensor they read and control dependency; num_awaited: number of such dependencies
    of each op.
    """

    def __init__(self, problem: Problem) -> None:
        lowered, machine = problem.lowered, problem.machine
        num_ops = len(lowered.graph_op)
        self.times: list[list[int]] = problem.time_ns[lowered.graph_op].tolist()
        self.device_of = [-1] * num_ops
        self.start = [0] * num_ops
        self.finish = [0] * num_ops
        self.producer: list[int] = lowered.producer.tolist()
        self.inputs = rows(lowered.input_begin, lowered.inputs)
        self.before = control_predecessors(lowered)
        self.successors: list[list[int]] = [[] for _ in range(num_ops)]
        for op, (tensors, controls) in enumerate(zip(self.inputs, self.before, strict=True)):
            for previous in (*(self.producer[tensor] for tensor in tensors), *controls):
                self.successors[previous].append(op)
        self.num_awaited = [len(t) + len(c) for t, c in zip(self.inputs, self.before, strict=True)]
        self._size: list[int] = lowered.transfer_bytes.tolist()
        self._latency = [[link.latency_ns for link in row] for row in machine.links]
        self._inverse_bandwidth = [[link.inverse_bandwidth for link in row] for row in machine.links]
        self._signals = problem.control == "signal"
        group, allowed = problem.groups
        self._group: list[int] = group.tolist()
        self._group_devices = [[d for d in range(machine.num_devices) if mask >> d & 1] for mask in allowed.tolist()]

    def devices(self, op: int) -> list[int]:
        """Return the devices the op may use, ascending: its group's, or the one where its group is already placed."""
        return self._group_devices[self._group[op]]

    def settle_group(self, op: int, device: int) -> None:
        """Restrict the op's whole group to that device."""
        self._group_devices[self._group[op]] = [device]

    def ready_ns(self, op: int, device: int) -> int:
        """Return when all inputs of the op are on the device; its predecessors must have been placed."""
        ready = 0
        for tensor in self.inputs[op]:
            ready = max(ready, self._arrival_ns(tensor, device))
        for previous in self.before[op]:
            ready = max(ready, self._signal_ns(previous, device))
        return ready

    def place(self, op: int, device: int, start: int) -> None:
        self.settle_group(op, device)
        self.device_of[op] = device
        self.start[op] = start
        self.finish[op] = start + self.times[op][device]

    def _arrival_ns(self, tensor: int, device: int) -> int:
        producer = self.producer[tensor]
        source = self.device_of[producer]
        if source == device:
            return self.finish[producer]
        # As Link.transfer_time_ns, which rounds up.
        moving = -(-self._size[tensor] * self._inverse_bandwidth[source][device] >> 32)
        return self.finish[producer] + self._latency[source][device] + moving

    def _signal_ns(self, previous: int, device: int) -> int:
        """Return when a control dependency lets the device continue: at the predecessor's start where only the order
        counts."""
        source = self.device_of[previous]
        if source == device:
            return self.finish[previous]
        return self.finish[previous] + self._latency[source][device] if self._signals else self.start[previous]


def rows(begin: NDArray[np.int32], values: NDArray[np.int32]) -> list[list[int]]:
    """Split an array in compressed form into rows: row i is values[begin[i] : begin[i + 1]]."""
    flat, ends = values.tolist(), begin.tolist()
    return [flat[first:last] for first, last in pairwise(ends)]


def control_predecessors(lowered: Lowered) -> list[list[int]]:
    """Return per scheduled op the ops it must follow without reading from them."""
    before: list[list[int]] = [[] for _ in lowered.graph_op]
    for op, successors in enumerate(rows(lowered.control_begin, lowered.controls)):
        for successor in successors:
            before[successor].append(op)
    return before
