"""A chain of convolutions: LeNet-5."""

from __future__ import annotations

from torch import nn


def lenet() -> nn.Sequential:
    """LeCun et al., Gradient-Based Learning Applied to Document Recognition, 1998: 32x32 digits."""
    return nn.Sequential(
        *(nn.Conv2d(1, 6, 5), nn.Tanh(), nn.AvgPool2d(2), nn.Conv2d(6, 16, 5), nn.Tanh(), nn.AvgPool2d(2)),
        *(nn.Conv2d(16, 120, 5), nn.Tanh(), nn.Flatten(), nn.Linear(120, 84), nn.Tanh(), nn.Linear(84, 10)),
    )
