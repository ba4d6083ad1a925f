"""REINFORCE (Williams 1992): actions with higher rewards than expected become likelier.

The expected reward is a value function's or the other samples' mean (REGAL, section 4.1), a moving average (ColocRL,
Mirhoseini et al. 2017, section 3.1), or a separate mean for each step of an episode (Placeto, Addanki et al. 2019).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from placewright.lab.learning.algorithms.descent import ClippedAdam, estimate
from placewright.lab.learning.environments.first_come import Trials
from placewright.lab.learning.placers.placement_policy import Likelihood, PlacementPolicy
from placewright.lab.learning.protocols import Environment, GradientEstimate, Network, ValueFunction
from placewright.support.errors import InputError


@dataclass(frozen=True, kw_only=True, eq=False)
class Reinforce:
    """REINFORCE for trainings over many graphs. networks: all networks that learn. value_function: the baseline of a
    single sample; without one, each sample is compared with the mean of the others (leave-one-out, Kool et al. 2019).
    value_weight: of its squared error."""

    network: Network
    networks: nn.Module
    value_function: ValueFunction | None = None
    value_weight: float = 0.0

    def gradient(self, environment: Environment, seeds: Sequence[int]) -> GradientEstimate:
        """Draw actions once for each seed and obtain their rewards; all searches use the first seed, since the samples
        are compared with one another, and one lucky search should not decide."""
        problem, observation = environment.problem, environment.observation
        distribution = self.network.distribution(observation)
        expected = self.value_function(observation) if self.value_function else None

        actions = [distribution.sample(seed) for seed in seeds]
        guides = [self.network.guide(problem, observation, each) for each in actions]
        rewards = torch.tensor(environment.rewards(guides, [seeds[0]] * len(guides)))

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
    """Return by how much each sample exceeds the mean of the others, or a single one the expected reward. [samples]"""
    if expected is not None:
        return rewards - expected.detach()
    return (rewards - rewards.mean()) * len(rewards) / (len(rewards) - 1)


class MovingBaseline:
    """Adam down the gradient of (cost - baseline) * log probability.

    start: of the baseline; None for the mean of the first placements that count. decay: share of the baseline that is
    kept at each step. cut_off: after this many steps a placement that did not run changes neither weights nor baseline;
    before, its given cost counts.
    """

    def __init__(
        self,
        policy: PlacementPolicy,
        *,
        learning_rate: float,
        start: float | None,
        decay: float = 0.9,
        cut_off: int = 5000,
        max_grad_norm: float = 1.0,
    ) -> None:
        self.policy, self.baseline, self.decay, self.cut_off = policy, start, decay, cut_off
        self.steps = 0
        self._descent = ClippedAdam(policy.parameters(), learning_rate, max_grad_norm)

    def learn(self, actions: Tensor, trials: Trials) -> None:
        if self.differentiate(self.policy.evaluate(actions).log_probability.sum(1), trials.cost, trials.runs):
            self._descent.step()

    def differentiate(self, log_probability: Tensor, cost: NDArray[np.float64], runs: NDArray[np.bool_]) -> bool:
        """Leave the gradient in the policy; return True if there is anything to learn from.

        log_probability: [count] of whole placements.
        """
        if not np.isfinite(cost).all():
            raise InputError("a cost is not a finite number, so there is nothing to learn from it")
        counts = runs | (self.steps < self.cut_off)
        self.steps += 1
        if not counts.any():
            return False
        mean = float(cost[counts].mean())
        before = mean if self.baseline is None else self.baseline
        loss = advantage_loss(log_probability, cost - before, counts)
        self.baseline = self.decay * before + (1 - self.decay) * mean
        self.policy.zero_grad()
        loss.backward()
        return True


def advantage_loss(log_probability: Tensor, advantage: NDArray[np.float64], counts: NDArray[np.bool_]) -> Tensor:
    """Return the mean over the placements that count."""
    weight = torch.from_numpy(np.where(counts, advantage, 0.0)).to(log_probability.dtype)
    return (weight * log_probability).sum() / int(counts.sum())


class StepBaseline:
    """Adam up (return - baseline) * log probability. The baseline of a step is the mean of the last episodes' returns
    from that step on.

    learning_rates: from the first to the second over `steps`, then constant. entropy: initial weight of a nat; it falls
    to 0 over the same steps. episodes: number of episodes in the baseline's mean.
    """

    def __init__(
        self,
        network: nn.Module,
        *,
        learning_rates: tuple[float, float],
        steps: int,
        entropy: float,
        episodes: int = 10,
        max_grad_norm: float = 1.25,
    ) -> None:
        self.learning_rates, self.steps, self.entropy, self.steps_made = learning_rates, steps, entropy, 0
        self._gains: deque[NDArray[np.float64]] = deque(maxlen=episodes)
        self._descent = ClippedAdam(network.parameters(), learning_rates[0], max_grad_norm)

    def step(self, likelihood: Likelihood, returns: NDArray[np.float64], learned: NDArray[np.int64]) -> None:
        """Make a step. likelihood: of the decisions of some steps, [count, len(learned)]. returns: [count, num steps],
        of each episode from each step on. learned: the indices of these steps."""
        if not np.isfinite(returns).all():
            raise InputError("a return is not a finite number, so there is nothing to learn from it")
        self._gains.extend(returns)
        loss = self.loss(likelihood, (returns - self.baseline)[:, learned])
        share = min(1.0, self.steps_made / self.steps)
        rate = (1 - share) * self.learning_rates[0] + share * self.learning_rates[1]
        self._descent.adam.param_groups[0]["lr"] = rate
        self._descent.descend(loss)
        self.steps_made += 1

    @property
    def baseline(self) -> NDArray[np.float64]:
        """The mean return from each step on, [num steps]."""
        return np.mean(self._gains, axis=0, dtype=np.float64)

    def loss(self, likelihood: Likelihood, advantage: NDArray[np.float64]) -> Tensor:
        """Return the mean over decisions."""
        log = likelihood.log_probability
        worth = self.entropy * max(0.0, 1 - self.steps_made / self.steps)
        return -(torch.from_numpy(advantage).to(log.dtype) * log + worth * likelihood.entropy).mean()
