"""Post (Gao, Chen & Li, NeurIPS 2018): no network. Each unit has its own distribution over devices, which proximal
policy optimisation changes, and which is periodically fitted to the best placements (the cross-entropy method)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from placewright.lab.learning.environments.first_come import FAILING_SIGNAL
from placewright.lab.learning.placers.placer import LearnedPlacer, Proposals, Task
from placewright.support.errors import InputError

Float = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Post(LearnedPlacer):
    """Post makes a step of PPO after every `batch` placements, and a fit to the best `elite` of them after every
    `refit`.

    ppo_steps: of gradient ascent, in one step of PPO; clip: of its probability ratios, unit by unit. exploration:
    uniform share of the distribution, falling to 0 over `placements`.
    """

    name: str = "post"
    batch: int = 20
    refit: int = 100
    elite: float = 0.1
    ppo_steps: int = 10
    learning_rate: float = 1.0
    clip: float = 0.2
    exploration: float = 0.1
    placements: int = 2400

    def __post_init__(self) -> None:
        if not 2 <= self.batch <= self.refit:
            raise InputError(f"a batch of {self.batch} placements must be from 2 to refit, {self.refit}")
        if not 0 < self.elite <= 1:
            raise InputError(f"elite is {self.elite}; it must be above 0 and at most 1")
        if not 0 <= self.exploration < 1:
            raise InputError(f"exploration is {self.exploration}; it must be from 0 to below 1")

    def proposals(self, task: Task) -> Proposals:
        random = np.random.default_rng(task.seed)
        uniform = task.units.allowed / task.units.allowed.sum(1, keepdims=True)
        logits, drawn = np.where(task.units.allowed, 0.0, -np.inf), 0
        tried, costs = list[NDArray[np.int64]](), list[Float]()
        while True:
            share = self.exploration * max(0.0, 1 - drawn / self.placements)
            probabilities = (1 - share) * softmax(logits) + share * uniform
            devices = sample(probabilities, self.batch, random)
            trials = yield devices
            drawn += self.batch
            tried.append(devices)
            costs.append(trials.cost)
            logits = self._improved(logits, devices, trials.cost)
            if len(tried) * self.batch >= self.refit:
                logits = self._refitted(logits, np.concatenate(tried), np.concatenate(costs))
                tried, costs = [], []

    def _improved(self, logits: Float, devices: NDArray[np.int64], cost: Float) -> Float:
        """Return the logits after some steps up the clipped objective; the placements are compared with their own
        mean."""
        advantage = cost.mean() - cost
        deviation = advantage.std()
        if deviation == 0:
            return logits
        before = softmax(logits)
        for _ in range(self.ppo_steps):
            logits = logits + self.learning_rate * ppo_gradient(
                logits, before, devices, advantage / deviation, self.clip
            )
        return logits

    def _refitted(self, logits: Float, devices: NDArray[np.int64], cost: Float) -> Float:
        """Return logits fitted, by half, to the frequencies of devices in the best placements, without those that did
        not run."""
        order = np.argsort(cost, kind="stable")[: max(1, int(self.elite * len(cost)))]
        elite = order[cost[order] < FAILING_SIGNAL]
        if not len(elite):
            return logits
        shares = np.stack([(devices[elite] == d).mean(0) for d in range(logits.shape[1])], 1)
        mixed = 0.5 * shares + 0.5 * softmax(logits)
        with np.errstate(divide="ignore"):
            return np.where(np.isfinite(logits), np.log(np.maximum(mixed, 1e-6)), -np.inf)


def softmax(logits: Float) -> Float:
    """Return the softmax of each row; -inf has no probability."""
    powers = np.exp(logits - logits.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


def sample(probabilities: Float, count: int, random: np.random.Generator) -> NDArray[np.int64]:
    """Draw devices: [count, num units] from [num units, num devices]."""
    totals = probabilities.cumsum(1)
    uniform = random.random((count, len(probabilities))) * totals[:, -1]
    return (uniform[:, :, None] >= totals[None]).sum(2)


def ppo_gradient(logits: Float, before: Float, devices: NDArray[np.int64], advantage: Float, clip: float) -> Float:
    """Return the gradient, by the logits, of the mean over placements of the clipped objective, summed over units
    (Schulman et al. 2017)."""
    now, unit = softmax(logits), np.arange(devices.shape[1])
    ratio = now[unit, devices] / before[unit, devices]  # [count, num units]
    gains = advantage[:, None]
    counts = np.where(gains > 0, ratio < 1 + clip, ratio > 1 - clip)
    weight = np.where(counts, ratio * gains, 0.0)
    gradient = -weight.sum(0)[:, None] * now
    np.add.at(gradient, (np.broadcast_to(unit, devices.shape), devices), weight)
    return gradient / len(devices)
