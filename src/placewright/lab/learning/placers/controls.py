"""Control methods for learned placers: the same groups, schedule and number of placements without learning."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from placewright.lab.learning.placers.features import unit_features
from placewright.lab.learning.placers.placer import LearnedPlacer, Proposals, Task, torch_on_one_thread
from placewright.support.errors import InputError

Devices = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class _Batches(LearnedPlacer):
    """A placer that tries `batch` placements at a time."""

    batch: int = 20

    def __post_init__(self) -> None:
        if self.batch < 1:
            raise InputError(f"a batch of {self.batch} placements must be at least 1")


@dataclass(frozen=True, kw_only=True)
class RandomPlacement(_Batches):
    """A placer that draws each group's device uniformly from all that it may use, `batch` placements at a time."""

    name: str = "random-placement"

    def proposals(self, task: Task) -> Proposals:
        random = np.random.default_rng(task.seed)
        while True:
            wishes = np.where(task.units.allowed, random.random((self.batch, *task.units.allowed.shape)), -1.0)
            yield wishes.argmax(2)


@dataclass(frozen=True, kw_only=True)
class EvolvedPlacement(LearnedPlacer):
    """REGAL's genetic algorithm with keys for placement alone (BRKGA: Gonçalves & Resende 2011; Paliwal et al. 2020,
    A.12): a key for each group and device it may use; the largest decides. The schedule is the same as for all
    learners.

    population, elites, mutants: number of all individuals, and of those kept and drawn anew in each generation.
    elite_bias: the share of its keys that a child takes from its better parent.
    """

    name: str = "brkga-placement"
    population: int = 100
    elites: int = 20
    mutants: int = 15
    elite_bias: float = 0.7

    def __post_init__(self) -> None:
        if not (self.elites >= 1 <= self.mutants and self.elites + self.mutants < self.population):
            raise InputError(
                f"of a population of {self.population}, {self.elites} elites and {self.mutants} mutants must be at "
                "least 1 each and leave room for children"
            )
        if not 0.5 <= self.elite_bias < 1:
            raise InputError(f"elite_bias is {self.elite_bias}; it must be from 0.5 to below 1")

    def proposals(self, task: Task) -> Proposals:
        random, allowed = np.random.default_rng(task.seed), task.units.allowed
        keys = random.random((self.population, *allowed.shape))
        cost = np.empty(0)
        while True:
            newcomers = keys[len(cost) :]
            trials = yield np.where(allowed, newcomers, -1.0).argmax(2)
            keys = keys[order := np.argsort(cost := np.append(cost, trials.cost), kind="stable")]
            children = self._children(keys, random)
            mutants = random.random((self.mutants, *allowed.shape))
            keys, cost = np.concatenate([keys[: self.elites], children, mutants]), cost[order][: self.elites]

    def _children(self, keys: NDArray[np.float64], random: np.random.Generator) -> NDArray[np.float64]:
        """Return children, each of an elite and another individual. keys: the best first."""
        count = self.population - self.elites - self.mutants
        better = keys[random.integers(self.elites, size=count)]
        other = keys[random.integers(self.elites, self.population, size=count)]
        return np.where(random.random(better.shape) < self.elite_bias, better, other)


@dataclass(frozen=True, kw_only=True)
class SharedNoisePlacement(_Batches):
    """A placer that puts each op on the device with the largest noise, which ops that exchange tensors share: the
    sampling of HDP and GDP, without their networks."""

    name: str = "shared-noise-placement"
    colocation: tuple[str, ...] = ()

    def proposals(self, task: Task) -> Proposals:
        with torch_on_one_thread(self.name):
            import torch

            from placewright.lab.learning.placers.shared_noise import SharedNoise, choices

            features, units = unit_features(task.problem, task.units), task.units
            noise = SharedNoise(features.edges, features.bytes_on, units.count)
            barred = torch.from_numpy(np.where(units.allowed, 0.0, -np.inf))
            generator = torch.Generator().manual_seed(task.seed % 2**63)
            while True:
                yield choices(barred, noise, 1.0, self.batch, generator).numpy()


@dataclass(frozen=True, kw_only=True)
class AnnealedPlacement(LearnedPlacer):
    """Simulated annealing (Kirkpatrick, Gelatt & Vecchi 1983), as FlexFlow searches placements (Jia et al. 2019). It
    starts from the best single device. A move gives a group, or a run of consecutive groups, another device.

    longest_run: of groups, as a share of all; lengths are drawn by their logarithm. first_temperature,
    last_temperature: of the cost, the square root of a ratio of step times; falls geometrically over the evaluations of
    the budget, no more than `placements`.
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
        """Return the devices after a run of groups moves to the same other device, each where it is allowed there."""
        count, num_devices = allowed.shape
        length = int(math.exp(random.uniform(0, math.log(max(1.0, self.longest_run * count)))))
        first = random.integers(count)
        run = np.arange(first, min(count, first + length))
        device = (devices[first] + random.integers(1, max(2, num_devices))) % num_devices
        moved = devices.copy()
        moved[run] = np.where(allowed[run, device], device, devices[run])
        return moved
