"""m-SCT: small communication times within memory (Jeon et al., SoCC 2020, section 3)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from placewright.lab.peers.favourite_child import favourite_children
from placewright.lab.peers.m_etf import ReadyOps
from placewright.problem import Problem
from placewright.search.constructive.baseline import Baseline, Candidate


@dataclass(frozen=True, kw_only=True)
class MemorySct(Baseline):
    """m-ETF with favourite children: a device that has just run an op is reserved for that op's favourite child. While
    the child waits for other inputs, only ops that could start there at once may come before it; when it is ready it
    comes first.

    seconds: time limit of the linear program for favourite children. Departures: Baechi solves it with MOSEK, here
    HiGHS does; its costs are those of the mean link, its times those of the mean device.
    """

    name: str = "m-sct"
    seconds: float = 60.0

    def candidates(self, problem: Problem) -> Iterator[Candidate]:
        ready = _Reserving(problem, favourite_children(problem, self.seconds))
        order = [ready.place_next() for _ in range(len(ready.plan.device_of))]
        device_of = np.array(ready.plan.device_of, np.int32)
        yield Candidate(name=self.name, device_of=device_of, order=np.array(order, np.int32))


class _Reserving(ReadyOps):
    """Ready ops with reserved devices. child: the favourite child of each op, -1 for none."""

    def __init__(self, problem: Problem, child: NDArray[np.int32]) -> None:
        self._child: list[int] = child.tolist()
        self._awaits = [-1] * problem.machine.num_devices
        super().__init__(problem)

    def heads(self) -> list[tuple[int, int, int]]:
        """Return the ops that can start; where none can because devices are reserved, lift all reservations."""
        found = super().heads()
        if not found and max(self._awaits) >= 0:
            self._awaits = [-1] * len(self._awaits)
            found = super().heads()
        return found

    def first_that_fits(self, device: int) -> tuple[int, int, int] | None:
        child, found = self._awaits[device], super().first_that_fits(device)
        if child < 0 or not self.is_open(child, device):
            return found
        if self.awaited[child] == 0 and self.memory.needed(child, device) <= self.memory.free[device]:
            return max(self.clock[device], self.plan.ready_ns(child, device)), child, device
        return found if found is not None and found[0] <= self.clock[device] else None

    def place(self, op: int, device: int, start: int) -> None:
        super().place(op, device, start)
        self._awaits[device] = self._child[op]
