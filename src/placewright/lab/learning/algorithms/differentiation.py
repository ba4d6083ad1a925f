"""From a loss to the gradient that a training sums up."""

from __future__ import annotations

from collections.abc import Sequence

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
    """The gradient of the loss by all weights of the networks; those that it does not depend on have 0."""
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
