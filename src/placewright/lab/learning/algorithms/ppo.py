"""Proximal policy optimisation (Schulman et al. 2017) with the clipped objective, over placements drawn whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from placewright.lab.learning.placers.placement_policy import Likelihood, PlacementPolicy
from placewright.support.errors import InputError


@dataclass(frozen=True, kw_only=True, eq=False)
class Rollout:
    """Placements that a policy drew, and how much better each was than expected.

    actions: int64 [count, decisions]. advantage: [count].
    """

    policy: PlacementPolicy
    actions: Tensor
    advantage: NDArray[np.float64]


class Ppo:
    """Some epochs of Adam on the same placements. Probability ratios are clipped decision by decision: the ratio of a
    placement of thousands of ops would leave any range at once.

    network: all that learns. clip: how far a ratio counts from 1. entropy: what a nat of a decision's entropy is worth.
    """

    def __init__(
        self,
        network: nn.Module,
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
        self.network, self.clip, self.epochs, self.entropy = network, clip, epochs, entropy
        self.max_grad_norm = max_grad_norm
        self._optimizer = torch.optim.Adam(network.parameters(), learning_rate)

    def step(self, rollouts: Sequence[Rollout]) -> None:
        """Each of them, of one graph or of several, counts as much as any other; only one is held at a time."""
        for rollout in rollouts:
            if not np.isfinite(rollout.advantage).all():
                raise InputError("an advantage is not a finite number, so there is nothing to learn from it")
        before: list[Tensor] = []
        for _ in range(self.epochs):
            self._optimizer.zero_grad()
            for index, rollout in enumerate(rollouts):
                now = rollout.policy.evaluate(rollout.actions)
                if index == len(before):
                    before.append(now.log_probability.detach())
                (self._loss(now, before[index], rollout.advantage) / len(rollouts)).backward()
            nn.utils.clip_grad_norm_(self.network.parameters(), self.max_grad_norm)
            self._optimizer.step()

    def _loss(self, now: Likelihood, before: Tensor, advantage: NDArray[np.float64]) -> Tensor:
        gain = clipped_gain(now.log_probability, before, torch.from_numpy(advantage), self.clip)
        return -(gain + self.entropy * now.entropy.mean())


def clipped_gain(now: Tensor, before: Tensor, advantage: Tensor, clip: float) -> Tensor:
    """Mean over decisions of the worse of ratio * advantage with the ratio as it is and clipped: what goes further than
    the clip in the direction of the advantage gains nothing more.

    now, before: [count, decisions] log probabilities. advantage: [count].
    """
    ratio = torch.exp(now - before)
    worth = advantage.to(ratio.dtype)[:, None]
    return torch.minimum(ratio * worth, ratio.clamp(1 - clip, 1 + clip) * worth).mean()


def standard_advantage(cost: NDArray[np.float64]) -> NDArray[np.float64]:
    """How many standard deviations each of some placements costs less than their mean; 0 where all cost the same."""
    if np.ptp(cost) == 0:
        return np.zeros_like(cost)
    return (cost.mean() - cost) / cost.std()
