"""m-ETF: earliest task first among devices with enough memory (Jeon et al., SoCC 2020)."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from placewright.lab.peers.contention_free import ContentionFree
from placewright.lab.peers.held_memory import HeldMemory
from placewright.problem import Problem
from placewright.search.constructive.baseline import Baseline, Candidate


@dataclass(frozen=True, kw_only=True)
class MemoryEtf(Baseline):
    """Repeatedly places the ready op that can start first on a device with enough memory, ties in captured order
    (Baechi, section 3).

    Memory is counted as in Baechi: parameters permanently, those of ops that share a device when the first of them is
    placed; outputs until all their readers are placed; workspace while an op runs. Departures: copies that a device
    receives count too, links never queue, an op that did not fit is tried again when memory is freed there, and where
    nothing fits anywhere the op that exceeds a limit least goes there.
    """

    name: str = "m-etf"

    def candidates(self, problem: Problem) -> Iterator[Candidate]:
        ready = ReadyOps(problem)
        order = [ready.place_next() for _ in range(len(ready.plan.device_of))]
        device_of = np.array(ready.plan.device_of, np.int32)
        yield Candidate(name=self.name, device_of=device_of, order=np.array(order, np.int32))


class ReadyOps:
    """The ready ops of each device: those whose inputs are still on their way, by arrival; those that could start now,
    in captured order; and those that did not fit, by the bytes they needed. Ops placed elsewhere are dropped when
    encountered."""

    def __init__(self, problem: Problem) -> None:
        self.plan = ContentionFree(problem)
        self.memory = HeldMemory(problem)
        self.clock = [0] * problem.machine.num_devices
        self._waiting: list[list[tuple[int, int]]] = [[] for _ in self.clock]
        self._startable: list[list[int]] = [[] for _ in self.clock]
        self._too_large: list[list[tuple[int, int]]] = [[] for _ in self.clock]
        self.awaited = list(self.plan.num_awaited)
        for op, count in enumerate(self.awaited):
            if count == 0:
                self._add(op)

    def place_next(self) -> int:
        """Place one op and return it."""
        heads = self.heads()
        start, op, device = min(heads) if heads else self._least_bad()
        free = list(self.memory.free)
        self.place(op, device, start)
        for other, before in enumerate(free):
            if self.memory.free[other] > before:
                self._try_again(other)
        for successor in self.plan.successors[op]:
            self.awaited[successor] -= 1
            if self.awaited[successor] == 0:
                self._add(successor)
        return op

    def heads(self) -> list[tuple[int, int, int]]:
        """Return (start, op, device) for each device that could start an op."""
        return [head for device in range(len(self.clock)) if (head := self.first_that_fits(device))]

    def place(self, op: int, device: int, start: int) -> None:
        self.plan.place(op, device, start)
        self.memory.place(op, device)
        self.clock[device] = self.plan.finish[op]

    def _add(self, op: int) -> None:
        for device in self.plan.devices(op):
            heapq.heappush(self._waiting[device], (self.plan.ready_ns(op, device), op))

    def first_that_fits(self, device: int) -> tuple[int, int, int] | None:
        """Return start, op and device of the op that the device could start first; ops that do not fit are put
        aside."""
        waiting, startable = self._waiting[device], self._startable[device]
        while True:
            while waiting and waiting[0][0] <= self.clock[device]:
                heapq.heappush(startable, heapq.heappop(waiting)[1])
            if not startable and not waiting:
                return None
            start, op = (self.clock[device], startable[0]) if startable else waiting[0]
            wanted = self.is_open(op, device)
            needed = self.memory.needed(op, device) if wanted else 0
            if wanted and needed <= self.memory.free[device]:
                return start, op, device
            if startable:
                heapq.heappop(startable)
            else:
                heapq.heappop(waiting)
            if wanted:
                heapq.heappush(self._too_large[device], (needed, op))

    def is_open(self, op: int, device: int) -> bool:
        return self.plan.device_of[op] < 0 and device in self.plan.devices(op)

    def _least_bad(self) -> tuple[int, int, int]:
        """Return start, op and device of the op that exceeds a limit least, for when no ready op fits anywhere."""
        best: tuple[int, int, int] | None = None
        for device, too_large in enumerate(self._too_large):
            while too_large and not self.is_open(too_large[0][1], device):
                heapq.heappop(too_large)
            if too_large:
                needed, op = too_large[0]
                found = (needed - self.memory.free[device], op, device)
                best = found if best is None else min(best, found)
        assert best is not None, "some op is always ready"
        _, op, device = best
        return max(self.clock[device], self.plan.ready_ns(op, device)), op, device

    def _try_again(self, device: int) -> None:
        """Make ops that were put aside ready again, the smallest first, as many as fit into the free memory
        together."""
        room, too_large = self.memory.free[device], self._too_large[device]
        while too_large and too_large[0][0] <= room:
            needed, op = heapq.heappop(too_large)
            if self.is_open(op, device):
                room -= needed
                heapq.heappush(self._waiting[device], (self.plan.ready_ns(op, device), op))
