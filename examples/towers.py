"""Four convolutional towers over one image: they do not wait for each other, so that two devices can share them.

placewright run examples/towers.py:build -d cpu:0,cpu:1 --training
"""

from __future__ import annotations

import torch


class Towers(torch.nn.Module):
    """The towers, and a linear layer over their outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.towers = torch.nn.ModuleList(
            torch.nn.Sequential(
                torch.nn.Conv2d(3, 48, 3, padding=1),
                torch.nn.ReLU(),
                torch.nn.Conv2d(48, 48, 5, padding=2),
                torch.nn.ReLU(),
                torch.nn.AdaptiveAvgPool2d(4),
                torch.nn.Flatten(),
            )
            for _ in range(4)
        )
        self.head = torch.nn.Linear(4 * 48 * 16, 10)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Scores, float32 [batch, 10], of images, float32 [batch, 3, height, width]."""
        scores: torch.Tensor = self.head(torch.cat([tower(image) for tower in self.towers], dim=1))
        return scores


def build() -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    """The module and its arguments."""
    return Towers(), (torch.randn(4, 3, 64, 64),)
