"""Boltzmann chromosomes (EGRL, appendix E): priors and a temperature for every decision, from which actions are drawn.

The operators take chromosomes and return new ones; random numbers come from the caller.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from placewright.lab.learning.egrl.settings import EvolutionSettings, Mode

Floats = NDArray[np.float64]
NodeLevels = NDArray[np.uint8]

#: The range of temperatures (the authors' code; there only until the first mutation).
COLDEST, HOTTEST = 0.1, 10.0
#: The mean number of decisions in a fixed chromosome's draw that differ from its priors, when it is coldest.
_LEAST_CHANGES = 1.5
#: The share of decisions that differ when a fixed chromosome is hottest; in small networks twice the least changes.
_MOST_CHANGED = 0.05
#: Never more than this share.
_HIGHEST_SHARE = 0.3


@dataclass(frozen=True, kw_only=True, eq=False)
class Boltzmann:
    """A chromosome. prior: [ops, 2, levels], of the levels of an op's weights and of its result. temperature: [ops,
    2]."""

    prior: Floats
    temperature: Floats

    @property
    def probabilities(self) -> Floats:
        """Softmax of prior over temperature, [ops, 2, levels]."""
        scaled = self.prior / self.temperature[..., None]
        weight = np.exp(scaled - scaled.max(axis=-1, keepdims=True))
        result: Floats = weight / weight.sum(axis=-1, keepdims=True)
        return result

    def draw(self, random: np.random.Generator) -> NodeLevels:
        """Draw levels by their probabilities, [ops, 2]."""
        below = np.cumsum(self.probabilities, axis=-1)[..., :-1]
        drawn: NodeLevels = (random.random(self.temperature.shape)[..., None] >= below).sum(axis=-1).astype(np.uint8)
        return drawn

    def arrays(self) -> Mapping[str, Floats]:
        return {"prior": self.prior, "temperature": self.temperature}

    def with_prior(self, levels: NodeLevels) -> Boltzmann:
        """Return this chromosome with all prior at one level of each decision."""
        return replace(self, prior=one_hot(levels, self.prior.shape[-1]))


def one_hot(levels: NodeLevels, num_levels: int) -> Floats:
    result: Floats = np.eye(num_levels)[levels]
    return result


def first_chromosome(ops: int, levels: int, mode: Mode, random: np.random.Generator) -> Boltzmann:
    """Make a chromosome of the first generation. paper: priors and temperatures as the authors' code draws them. fixed:
    all prior at the slowest level, since a random map of a large network fits nowhere, and one temperature for the
    chromosome."""
    if mode == "paper":
        prior = random.random((ops, 2, levels))
        temperature = random.uniform(COLDEST, HOTTEST, (ops, 2))
        return Boltzmann(prior=prior / prior.sum(axis=-1, keepdims=True), temperature=temperature)
    coldest, hottest = fixed_range(ops, levels)
    temperature = np.full((ops, 2), np.exp(random.uniform(np.log(coldest), np.log(hottest))))
    return Boltzmann(prior=one_hot(np.full((ops, 2), levels - 1, np.uint8), levels), temperature=temperature)


def fixed_range(ops: int, levels: int) -> tuple[float, float]:
    """Return the coldest and the hottest temperature of a chromosome whose prior is at one level of each decision."""

    def temperature(changed: float) -> float:
        # Each other level has exp(-1/T) of the weight of that level.
        return float(1 / np.log(max(levels - 1, 1) * (1 - changed) / changed))

    least = _LEAST_CHANGES / (2 * ops)
    return temperature(min(_HIGHEST_SHARE, least)), temperature(min(_HIGHEST_SHARE, max(_MOST_CHANGED, 2 * least)))


def crossed(one: Boltzmann, other: Boltzmann, random: np.random.Generator) -> Boltzmann:
    """Cross at a single point: the first ops of one, the last of the other, at least one of each where there are
    two."""
    ops = len(one.prior)
    cut = int(random.integers(1, ops)) if ops > 1 else int(random.integers(0, 2))
    return Boltzmann(
        prior=np.concatenate([one.prior[:cut], other.prior[cut:]]),
        temperature=np.concatenate([one.temperature[:cut], other.temperature[cut:]]),
    )


def mutated(chromosome: Boltzmann, settings: EvolutionSettings, random: np.random.Generator) -> Boltzmann:
    """Mutate a chromosome. paper: Gaussian noise on every prior and temperature. fixed: the temperature changes by a
    factor, which all decisions share; the priors are the kept draw, so that the draw itself is the mutation."""
    if settings.mode == "paper":
        prior = chromosome.prior + random.normal(0, settings.prior_noise, chromosome.prior.shape)
        noise = random.normal(0, settings.temperature_noise, chromosome.temperature.shape)
        return Boltzmann(prior=prior, temperature=np.clip(chromosome.temperature + noise, COLDEST, HOTTEST))
    factor = np.exp(random.normal(0, settings.temperature_noise))
    coldest, hottest = fixed_range(len(chromosome.prior), chromosome.prior.shape[-1])
    return replace(chromosome, temperature=np.clip(chromosome.temperature * factor, coldest, hottest))
