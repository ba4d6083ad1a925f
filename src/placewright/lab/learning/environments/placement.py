"""The reward of a placement: minus its simulated objective."""

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
    """A placement by the policy; the order as devices become free, transfers where they serve best (`best_transfers`).

    Parameters
    ----------
    reference
        Divisor of rewards, in ns or bytes, such as `one_device_objective`.
    threads
        Threads that simulate; the core does so without Python's lock. Rewards do not depend on it.
    """

    problem: Problem
    observation: Any
    reference: float
    threads: int = 1

    def rewards(self, guides: Sequence[Guide], seeds: Sequence[int] = ()) -> list[float]:
        """Return -objective / reference for each guide. Seeds are not used."""
        if self.threads == 1:
            return [self._reward(guide) for guide in guides]
        with ThreadPoolExecutor(self.threads) as pool:
            return list(pool.map(self._reward, guides))

    def _reward(self, guide: Guide) -> float:
        assert isinstance(guide, Placement)
        return -completed(self.problem, guide)[1] / self.reference


def one_device_objective(problem: Problem) -> float:
    """Return the objective with all ops on the problem's first device, in dispatch order; at least 1."""
    everything = Placement(device_of=np.zeros(problem.core.num_ops, np.int32))
    return max(1.0, float(completed(problem, everything)[1]))


def completed(problem: Problem, placement: Placement) -> tuple[Solution, int]:
    """Return the placement with an order and transfers, and its objective, in ns or bytes; three evaluations at
    most."""
    device_of = allowed_devices(problem, placement.device_of)
    ops = _core.dispatch_order(problem.core, device_of)
    order, fitness, _ = _core.best_transfers(problem.core, device_of, ops, 3)
    return Solution(device_of=device_of, order=order), fitness[1]


def allowed_devices(problem: Problem, device_of: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return for each op the device of its group's first op, or the first allowed device where that one is not
    allowed."""
    first, allowed = problem.groups
    chosen = device_of[first]
    may = (allowed.astype(np.uint64) >> chosen.astype(np.uint64)) & np.uint64(1) == 1
    lowest = np.array([(int(bits) & -int(bits)).bit_length() - 1 for bits in allowed], np.int32)
    return np.where(may, chosen, lowest).astype(np.int32)
