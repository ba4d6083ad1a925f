"""Proximal policy optimisation (Schulman et al. 2017) with the clipped objective: on one graph, and its gradient for
trainings over many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from placewright.lab.learning.algorithms.descent import ClippedAdam, estimate
from placewright.lab.learning.decisions import Decisions
from placewright.lab.learning.environments.first_come import Trials
from placewright.lab.learning.placers.placement_policy import Likelihood, PlacementPolicy
from placewright.lab.learning.protocols import (
    ActionDistribution,
    Actions,
    Environment,
    GradientEstimate,
    Network,
    Samples,
)
from placewright.support.errors import InputError


class Ppo:
    """PPO on one graph: some epochs of Adam on the same placements. Probability ratios are clipped decision by
    decision: the ratio of a placement of thousands of ops would leave any range at once.

    clip: largest distance of a ratio from 1 that counts. entropy: weight of a decision's entropy, per nat.
    """

    def __init__(
        self,
        policy: PlacementPolicy,
        *,
        learning_rate: float,
        clip: float = 0.2,
        epochs: int = 4,
        entropy: float = 0.01,
        max_grad_norm: float = 1.0,
    ) -> None:
        if epochs < 1:
            raise InputError(f"epochs is {epochs}; it must be at least 1")
        if not 0 < clip < 1:
            raise InputError(f"clip is {clip}; it must be between 0 and 1")
        self.policy, self.clip, self.epochs, self.entropy = policy, clip, epochs, entropy
        self._descent = ClippedAdam(policy.parameters(), learning_rate, max_grad_norm)

    def learn(self, actions: Tensor, trials: Trials) -> None:
        """Learn from placements of one step, compared with one another in units of their standard deviation."""
        self.step(actions, standard_advantage(trials.cost))

    def step(self, actions: Tensor, advantage: NDArray[np.float64]) -> None:
        """Learn. actions: int64 [count, decisions], as the policy drew them. advantage: [count], how much better each
        was than expected."""
        if not np.isfinite(advantage).all():
            raise InputError("an advantage is not a finite number, so there is nothing to learn from it")
        before = None
        for _ in range(self.epochs):
            now = self.policy.evaluate(actions)
            before = now.log_probability.detach() if before is None else before
            self._descent.descend(clipped_loss(now, before, advantage, self.clip, self.entropy))


def clipped_loss(
    now: Likelihood, before: Tensor, advantage: NDArray[np.float64], clip: float, entropy: float
) -> Tensor:
    """Return minus the clipped gain and minus the weighted entropy."""
    gain = clipped_gain(now.log_probability, before, torch.from_numpy(advantage), clip)
    return -(gain + entropy * now.entropy.mean())


def clipped_gain(now: Tensor, before: Tensor, advantage: Tensor, clip: float) -> Tensor:
    """Return the mean over decisions of the lower of ratio * advantage with the original and the clipped ratio: a ratio
    beyond the clip in the direction of the advantage gains nothing more.

    now, before: [count, decisions] log probabilities. advantage: [count].
    """
    ratio = torch.exp(now - before)
    worth = advantage.to(ratio.dtype)[:, None]
    return torch.minimum(ratio * worth, ratio.clamp(1 - clip, 1 + clip) * worth).mean()


def standard_advantage(cost: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return by how many standard deviations each cost is below the mean; 0 where all costs are the same."""
    if np.ptp(cost) == 0:
        return np.zeros_like(cost)
    return (cost.mean() - cost) / cost.std()


class DecisionDistribution(ActionDistribution, Protocol):
    """A distribution of actions with a probability for each decision."""

    def likelihood(self, actions: Sequence[Actions]) -> Likelihood: ...

    @property
    def decisions(self) -> Decisions: ...


@dataclass(frozen=True, kw_only=True, eq=False)
class PpoGradient:
    """PPO's gradient: samples of a graph are compared with one another, in units of their standard deviation. clip,
    entropy: as in Ppo.

    network: its distribution is a `DecisionDistribution`. networks: all networks that learn.
    """

    network: Network
    networks: nn.Module
    clip: float = 0.2
    entropy: float = 0.01

    def gradient(self, environment: Environment, seeds: Sequence[int]) -> GradientEstimate:
        """Draw actions once for each seed, obtain their rewards, and return the gradient."""
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
        now, before = distribution.likelihood(samples.actions), torch.from_numpy(samples.log_probability)
        advantage = standard_advantage(-np.array(samples.rewards))
        loss = clipped_loss(now, before, advantage, self.clip, self.entropy)
        return estimate(loss, self.networks, rewards=samples.rewards, decisions=distribution.decisions, samples=samples)
