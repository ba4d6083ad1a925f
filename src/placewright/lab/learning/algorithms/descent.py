"""The gradient of a loss, which a training sums up, and the step of a learner on one graph."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from placewright.lab.learning.decisions import Decisions
from placewright.lab.learning.protocols import GradientEstimate, Samples


def estimate(
    loss: Tensor,
    networks: nn.Module,
    *,
    decisions: Decisions,
    rewards: Sequence[float] = (),
    expected_reward: float | None = None,
    samples: Samples | None = None,
) -> GradientEstimate:
    """Return the gradient of the loss by all weights of the networks; 0 for those that the loss does not depend on."""
    weights = list(networks.parameters())
    gradients = torch.autograd.grad(loss, weights, allow_unused=True, materialize_grads=True)
    return GradientEstimate(
        gradient=torch.cat([gradient.reshape(-1) for gradient in gradients]).numpy(),
        loss=float(loss.detach()),
        rewards=tuple(rewards),
        decisions=decisions,
        expected_reward=expected_reward,
        samples=samples,
    )


class ClippedAdam:
    """Adam with gradients clipped to a largest norm."""

    def __init__(self, weights: Iterable[nn.Parameter], learning_rate: float, max_grad_norm: float) -> None:
        self._weights, self._max_grad_norm = list(weights), max_grad_norm
        self.adam = torch.optim.Adam(self._weights, learning_rate)

    def descend(self, loss: Tensor) -> None:
        """Make a step down the loss."""
        self.adam.zero_grad()
        loss.backward()
        self.step()

    def step(self) -> None:
        """Make a step with the gradients that the weights have."""
        nn.utils.clip_grad_norm_(self._weights, self._max_grad_norm)
        self.adam.step()
