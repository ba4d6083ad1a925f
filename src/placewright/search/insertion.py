"""Insertion-based scheduling, what HEFT and CPOP share (Topcuoglu, Hariri and Wu 2002, section 4)."""

from __future__ import annotations

import numpy as np

from placewright.problem import Problem
from placewright.search.baseline import Candidate
from placewright.search.contention_free import ContentionFree, by_priority
from placewright.search.idle_slots import IdleSlots


class InsertionSchedule:
    """Ops are placed one after another, each in the earliest idle slot that is long enough.

    plan: placement and times so far. Its links never queue, so the problem's own simulation of the same decisions may
    take longer, and less only where control dependencies are but an order: there the plan has an op wait for the start
    of what it must follow, though it need not, so that sorting the ops by start gives a valid order.
    """

    def __init__(self, problem: Problem) -> None:
        self.plan = ContentionFree(problem)
        self._idle = [IdleSlots() for _ in problem.machine.devices]
        self._sequence: list[int] = []

    @property
    def step_time_ns(self) -> int:
        """Finish of the last op placed, in the schedule's own model."""
        return max(self.plan.finish)

    def place(self, op: int) -> None:
        """Places the op, whose predecessors must stand, where it finishes first; the first device of equals."""
        best_finish, best_start, best_device = -1, 0, 0
        for device in self.plan.devices(op):
            duration = self.plan.times[op][device]
            start = self._idle[device].earliest(self.plan.ready_ns(op, device), duration)
            if best_finish < 0 or start + duration < best_finish:
                best_finish, best_start, best_device = start + duration, start, device
        self._idle[best_device].occupy(best_start, best_finish - best_start)
        self.plan.place(op, best_device, best_start)
        self._sequence.append(op)

    def candidate(self, name: str) -> Candidate:
        """The placement, and the ops by start time."""
        return Candidate(
            name=name,
            device_of=np.array(self.plan.device_of, np.int32),
            order=np.array(self._order(), np.int32),
        )

    def _order(self) -> list[int]:
        """Of the ops whose predecessors stand in the order always the one that starts first, then finishes first: an op
        of no time stands before one that starts with it. Where control dependencies are only an order, an op may start
        with what it must follow, so sorting by time alone would not do."""
        keys = [(0, 0, 0)] * len(self._sequence)
        for position, op in enumerate(self._sequence):
            keys[op] = (self.plan.start[op], self.plan.finish[op], position)
        return list(by_priority(self.plan, keys))
