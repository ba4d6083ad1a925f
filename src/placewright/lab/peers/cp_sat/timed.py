"""A solution with overlapped transfers, with the times of its steps and the time that follows each."""

from __future__ import annotations

from collections import defaultdict

from placewright.lab.peers.cp_sat.structure import Structure, Transfer
from placewright.search.run.result import Solution

#: (op, -1) or (tensor, destination), as in orders.
Step = tuple[int, int]


class Timed:
    """A timed solution. start, finish, tail: ns by step. A step's tail is the longest path from its start to the end of
    the last op, with devices and orders fixed: start + tail is at most step_time_ns, and where it is equal, the step is
    critical.

    place: of each step in the order. ops: by start.
    """

    def __init__(self, structure: Structure, solution: Solution) -> None:
        simulated = structure.problem.core.simulate(solution.device_of, solution.order)
        self.structure, self.solution, self.step_time_ns = structure, solution, simulated.step_time_ns
        self.bytes_over_limit = simulated.bytes_over_limit
        self.device_of: list[int] = solution.device_of.tolist()
        steps: list[Step] = list(map(tuple, solution.order.tolist()))
        self.start = dict(zip(steps, simulated.start_ns.tolist(), strict=True))
        self.finish = dict(zip(steps, simulated.finish_ns.tolist(), strict=True))
        self.place = {step: place for place, step in enumerate(steps)}
        self.ops = sorted((op for op, d in steps if d < 0), key=lambda op: (self.start[op, -1], self.place[op, -1]))
        self.tail = self._tails(steps)

    def link_of(self, transfer: Transfer) -> tuple[int, int]:
        tensor, destination = transfer
        return self.device_of[self.structure.producer[tensor]], destination

    def readers_on(self, tensor: int, d: int) -> list[int]:
        return [reader for reader in self.structure.readers[tensor] if self.device_of[reader] == d]

    def _tails(self, steps: list[Step]) -> dict[Step, int]:
        """Return the tails, backwards over the order: a step is followed by those that wait for it and the next on its
        device or link."""
        structure, device_of = self.structure, self.device_of
        latency = [[link.latency_ns for link in row] for row in structure.problem.machine.links]
        signals: dict[int, list[int]] = defaultdict(list)
        for before, after in structure.controls if structure.problem.control == "signal" else ():
            signals[after].append(before)
        tail: dict[Step, int] = {}
        behind: dict[Step, int] = defaultdict(int)
        # By device (here the link to itself) or link: the tail of the step served there next.
        behind_on: dict[tuple[int, int], int] = defaultdict(int)
        for step in reversed(steps):
            index, d = step
            link = (device_of[index], device_of[index]) if d < 0 else self.link_of(step)
            own = self.finish[step] - self.start[step]
            tail[step] = behind_on[link] = own + max(behind[step], behind_on[link])
            if d >= 0:
                maker = structure.producer[index], -1
                behind[maker] = max(behind[maker], tail[step])
                continue
            for tensor in structure.inputs[index]:
                maker = structure.producer[tensor], -1
                source = maker if device_of[maker[0]] == device_of[index] else (tensor, device_of[index])
                behind[source] = max(behind[source], tail[step])
            for before in signals[index]:
                delay = 0 if device_of[before] == device_of[index] else latency[device_of[before]][device_of[index]]
                behind[before, -1] = max(behind[before, -1], delay + tail[step])
        return tail
