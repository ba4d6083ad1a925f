"""PPO for trainings over many graphs: the gradient of its clipped objective on one of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import nn

from placewright.lab.learning.algorithms.differentiation import estimate
from placewright.lab.learning.algorithms.ppo import clipped_gain, standard_advantage
from placewright.lab.learning.decisions import Decisions
from placewright.lab.learning.placers.placement_policy import Likelihood
from placewright.lab.learning.protocols import (
    ActionDistribution,
    Actions,
    Environment,
    GradientEstimate,
    Network,
    Samples,
)


class DecisionDistribution(ActionDistribution, Protocol):
    """Of actions whose decisions have a probability each."""

    def likelihood(self, actions: Sequence[Actions]) -> Likelihood: ...

    @property
    def decisions(self) -> Decisions: ...


@dataclass(frozen=True, kw_only=True, eq=False)
class PpoGradient:
    """Samples of a graph stand against one another, in their standard deviations. clip, entropy: as in Ppo.

    network: whose distribution is a `DecisionDistribution`. networks: all that learns.
    """

    network: Network
    networks: nn.Module
    clip: float = 0.2
    entropy: float = 0.01

    def gradient(self, environment: Environment, seeds: Sequence[int]) -> GradientEstimate:
        """Draws actions once for each seed, and sees what they are worth."""
        problem, observation = environment.problem, environment.observation
        distribution = self._distribution(environment)
        actions = tuple(distribution.sample(seed) for seed in seeds)
        guides = [self.network.guide(problem, observation, each) for each in actions]
        rewards = tuple(environment.rewards(guides, seeds))
        drawn = distribution.likelihood(actions).log_probability.detach().numpy()
        return self._estimate(distribution, Samples(actions=actions, rewards=rewards, log_probability=drawn))

    def gradient_again(self, environment: Environment, samples: Samples) -> GradientEstimate:
        return self._estimate(self._distribution(environment), samples)

    def _distribution(self, environment: Environment) -> DecisionDistribution:
        found: DecisionDistribution = self.network.distribution(environment.observation)  # type: ignore[assignment]
        return found

    def _estimate(self, distribution: DecisionDistribution, samples: Samples) -> GradientEstimate:
        now = distribution.likelihood(samples.actions)
        advantage = torch.from_numpy(standard_advantage(-np.array(samples.rewards)))
        before = torch.from_numpy(samples.log_probability)
        gain = clipped_gain(now.log_probability, before, advantage, self.clip)
        loss = -gain - self.entropy * now.entropy.mean()
        return estimate(loss, self.networks, rewards=samples.rewards, decisions=distribution.decisions, samples=samples)
