"""The probabilities of a graph's placements: given the graph, units are independent."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from placewright.lab.learning.decisions import Decisions, decisions_of
from placewright.lab.learning.gdp.observation import Observation
from placewright.lab.learning.placers.placement_policy import Likelihood, likelihood
from placewright.lab.learning.placers.shared_noise import choices
from placewright.lab.learning.protocols import Actions


class DeviceDistribution:
    """The distribution of a placement. logits: [units, devices]. shared_noise: as in GdpConfiguration. Actions are
    [units, 1]."""

    def __init__(self, logits: Tensor, observation: Observation, shared_noise: float) -> None:
        self._logits, self._observation, self._shared_noise = logits, observation, shared_noise

    def sample(self, seed: int) -> Actions:
        generator = torch.Generator().manual_seed(seed)
        devices = drawn(self._logits, self._observation, self._shared_noise, 1, generator)
        return devices[0].numpy()[:, None]

    def choose(self, seed: int) -> Actions:
        """Return the likeliest device of each unit; seeds are not used."""
        return self._logits.detach().argmax(1).numpy()[:, None]

    def likelihood(self, actions: Sequence[Actions]) -> Likelihood:
        devices = torch.from_numpy(np.stack([each[:, 0] for each in actions]))
        return likelihood(self._logits.expand(len(devices), -1, -1), devices)

    @property
    def decisions(self) -> Decisions:
        return decisions_of([torch.log_softmax(self._logits, 1)], logits=self._logits)

    def evaluate(self, actions: Sequence[Actions]) -> tuple[Tensor, Decisions]:
        return self.likelihood(actions).log_probability.sum(1), self.decisions


def drawn(
    logits: Tensor, observation: Observation, shared_noise: float, count: int, generator: torch.Generator
) -> Tensor:
    """Draw placements, [count, units], from logits, [units, devices]: each unit by its own probabilities, or the
    likeliest with noise."""
    if shared_noise:
        return choices(logits.detach(), observation.noise, shared_noise, count, generator, observation.fixed)
    probability = torch.softmax(logits.detach(), 1)
    return torch.multinomial(probability, count, replacement=True, generator=generator).T
