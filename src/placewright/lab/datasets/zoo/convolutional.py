"""Chains of convolutions: LeNet-5 and All-CNN."""

from __future__ import annotations

from torch import nn


def lenet() -> nn.Sequential:
    """LeCun et al., Gradient-Based Learning Applied to Document Recognition, 1998: 32x32 digits."""
    return nn.Sequential(
        *(nn.Conv2d(1, 6, 5), nn.Tanh(), nn.AvgPool2d(2), nn.Conv2d(6, 16, 5), nn.Tanh(), nn.AvgPool2d(2)),
        *(nn.Conv2d(16, 120, 5), nn.Tanh(), nn.Flatten(), nn.Linear(120, 84), nn.Tanh(), nn.Linear(84, 10)),
    )


def _plain(inputs: int, outputs: int, kernel: int, stride: int = 1, padding: int = 0) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(inputs, outputs, kernel, stride, padding), nn.ReLU())


def all_convolutional() -> nn.Sequential:
    """Springenberg et al., Striving for Simplicity: The All Convolutional Net, 2015, All-CNN-C on CIFAR-10."""
    return nn.Sequential(
        *(nn.Dropout(0.2), _plain(3, 96, 3, padding=1), _plain(96, 96, 3, padding=1), _plain(96, 96, 3, 2, 1)),
        *(nn.Dropout(), _plain(96, 192, 3, padding=1), _plain(192, 192, 3, padding=1), _plain(192, 192, 3, 2, 1)),
        *(nn.Dropout(), _plain(192, 192, 3), _plain(192, 192, 1), _plain(192, 10, 1)),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten()),
    )
