"""What a placement is worth: the step it gives, simulated."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import placewright._core as _core
from placewright.guide import Guide, Placement
from placewright.problem import Problem
from placewright.search.run.result import Solution


@dataclass(frozen=True, kw_only=True, eq=False)
class SimulatedPlacement:
    """Devices from the policy; the order as devices become free, transfers where they serve best (`best_transfers`).

    Parameters
    ----------
    reference
        What rewards are divided by, in ns or bytes; by default what one device needs, the first, in the captured order.
    threads
        That simulate; the core does so without Python's lock. Rewards do not depend on it.
    """

    problem: Problem
    observation: Any
    reference: float
    threads: int = 1

    def rewards(self, guides: Sequence[Guide], seeds: Sequence[int] = ()) -> list[float]:
        """-objective / reference of each. No seed matters."""
        if self.threads == 1:
            return [self._reward(guide) for guide in guides]
        with ThreadPoolExecutor(self.threads) as pool:
            return list(pool.map(self._reward, guides))

    def _reward(self, guide: Guide) -> float:
        assert isinstance(guide, Placement)
        return -completed(self.problem, guide)[1] / self.reference


def one_device_objective(problem: Problem) -> float:
    """What the problem's first device needs for all ops, in the order it takes them; at least 1."""
    everything = Placement(device_of=np.zeros(problem.core.num_ops, np.int32))
    return max(1.0, float(completed(problem, everything)[1]))


def completed(problem: Problem, placement: Placement) -> tuple[Solution, int]:
    """The placement with an order and transfers, and its objective, in ns or bytes; three evaluations at most."""
    device_of = allowed_devices(problem, placement.device_of)
    ops = _core.dispatch_order(problem.core, device_of)
    order, fitness, _ = _core.best_transfers(problem.core, device_of, ops, 3)
    return Solution(device_of=device_of, order=order), fitness[1]


def allowed_devices(problem: Problem, device_of: NDArray[np.int32]) -> NDArray[np.int32]:
    """Each op on the device of the first op of its group, or where that must not be used on the first that may."""
    first, allowed = problem.groups
    chosen = device_of[first]
    may = (allowed.astype(np.uint64) >> chosen.astype(np.uint64)) & np.uint64(1) == 1
    lowest = np.array([(int(bits) & -int(bits)).bit_length() - 1 for bits in allowed], np.int32)
    return np.where(may, chosen, lowest).astype(np.int32)
