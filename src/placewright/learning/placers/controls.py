"""What learned placers are compared with: the same groups, schedule and number of placements without learning."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from placewright.learning.placers.placer import LearnedPlacer, Proposals, Task
from placewright.support.errors import InputError

Devices = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class RandomPlacement(LearnedPlacer):
    """Each group on a device drawn from all that it may use, `batch` placements at a time."""

    name: str = "random-placement"
    batch: int = 20

    def __post_init__(self) -> None:
        if self.batch < 1:
            raise InputError(f"a batch of {self.batch} placements must be at least 1")

    def proposals(self, task: Task) -> Proposals:
        random = np.random.default_rng(task.seed)
        while True:
            wishes = np.where(task.units.allowed, random.random((self.batch, *task.units.allowed.shape)), -1.0)
            yield wishes.argmax(2)


@dataclass(frozen=True, kw_only=True)
class AnnealedPlacement(LearnedPlacer):
    """Simulated annealing (Kirkpatrick, Gelatt & Vecchi 1983), as FlexFlow searches placements (Jia et al. 2019). It
    begins with the best single device. A move gives a group, or a run of groups that follow each other, another device.

    longest_run: of groups, as a share of all; lengths are drawn by their logarithm. first_temperature,
    last_temperature: of the cost, the square root of a ratio of step times; falls geometrically over the evaluations
    of the budget, no more than `placements`.
    """

    name: str = "annealed-placement"
    longest_run: float = 0.25
    first_temperature: float = 1e-2
    last_temperature: float = 1e-4
    placements: int = 2400

    def __post_init__(self) -> None:
        if not 0 < self.last_temperature <= self.first_temperature < float("inf"):
            raise InputError(
                f"temperatures must be positive and fall, not from {self.first_temperature} to {self.last_temperature}"
            )
        if not 0 <= self.longest_run <= 1:
            raise InputError(f"the longest run is {self.longest_run} of all groups; it must be from 0 to 1")

    def proposals(self, task: Task) -> Proposals:
        random, allowed = np.random.default_rng(task.seed), task.units.allowed
        alone = np.stack([np.where(allowed[:, d], d, allowed.argmax(1)) for d in range(allowed.shape[1])])
        trials = yield alone
        devices, cost = alone[trials.cost.argmin()], trials.cost.min()
        planned = max(1, min(task.evaluations, self.placements) - len(alone))
        for step in range(10**18):
            moved = self._moved(devices, allowed, random)
            trials = yield moved[None]
            cooled = min(1.0, step / planned)
            temperature = self.first_temperature ** (1 - cooled) * self.last_temperature**cooled
            if random.random() < math.exp(min(0.0, float(cost - trials.cost[0]) / temperature)):
                devices, cost = moved, trials.cost[0]

    def _moved(self, devices: Devices, allowed: NDArray[np.bool_], random: np.random.Generator) -> Devices:
        """A run of groups, each to the same other device where it may stand there."""
        count, num_devices = allowed.shape
        length = int(math.exp(random.uniform(0, math.log(max(1.0, self.longest_run * count)))))
        first = random.integers(count)
        run = np.arange(first, min(count, first + length))
        device = (devices[first] + random.integers(1, max(2, num_devices))) % num_devices
        moved = devices.copy()
        moved[run] = np.where(allowed[run, device], device, devices[run])
        return moved
