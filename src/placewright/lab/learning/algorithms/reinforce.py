"""REINFORCE (Williams 1992), as in REGAL, section 4.1: actions that were worth more than expected become likelier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from placewright.lab.learning.algorithms.differentiation import estimate
from placewright.lab.learning.protocols import Environment, GradientEstimate, Network, ValueFunction


@dataclass(frozen=True, kw_only=True, eq=False)
class Reinforce:
    """networks: all that learns. value_function: what a sample that stands alone is compared with; without one, each is
    compared with the mean of the others (leave-one-out, Kool et al. 2019). value_weight: of its squared error."""

    network: Network
    networks: nn.Module
    value_function: ValueFunction | None = None
    value_weight: float = 0.0

    def gradient(self, environment: Environment, seeds: Sequence[int]) -> GradientEstimate:
        """Draws actions once for each seed, and sees what they are worth."""
        problem, observation = environment.problem, environment.observation
        distribution = self.network.distribution(observation)
        expected = self.value_function(observation) if self.value_function else None

        actions = [distribution.sample(seed) for seed in seeds]
        guides = [self.network.guide(problem, observation, each) for each in actions]
        rewards = torch.tensor(environment.rewards(guides, seeds))

        log_probability, decisions = distribution.evaluate(actions)
        loss = -(_advantages(rewards, expected) * log_probability).mean()
        if expected is not None:
            loss = loss + self.value_weight * ((rewards - expected) ** 2).mean()
        return estimate(
            loss,
            self.networks,
            rewards=rewards.tolist(),
            decisions=decisions,
            expected_reward=None if expected is None else float(expected.detach()),
        )


def _advantages(rewards: Tensor, expected: Tensor | None) -> Tensor:
    """How much better each sample is than the mean of the others, or one alone than expected. [samples]"""
    if expected is not None:
        return rewards - expected.detach()
    return (rewards - rewards.mean()) * len(rewards) / (len(rewards) - 1)
