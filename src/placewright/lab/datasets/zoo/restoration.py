"""Larger images: EDSR."""

from __future__ import annotations

from torch import Tensor, nn

from placewright.lab.datasets.zoo.layers import Sum


def _same(inputs: int, outputs: int, kernel: int = 3) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, kernel, 1, kernel // 2)


def _long(*body: nn.Module) -> Sum:
    """A body with a shortcut around all of it."""
    return Sum(nn.Sequential(*body), nn.Identity())


class Scaled(nn.Sequential):
    """A chain whose result is multiplied by 0.1."""

    def forward(self, image: Tensor) -> Tensor:  # [batch, channels, height, width] -> the same
        return super().forward(image) * 0.1


def edsr(blocks: int = 32, width: int = 256) -> nn.Sequential:
    """Lim et al., Enhanced Deep Residual Networks for Super-Resolution, 2017, figure 3, twice as large."""

    def block() -> Sum:
        return Sum(Scaled(_same(width, width), nn.ReLU(), _same(width, width)), nn.Identity())

    body = _long(*(block() for _ in range(blocks)), _same(width, width))
    twice = nn.Sequential(_same(width, 4 * width), nn.PixelShuffle(2))
    return nn.Sequential(_same(3, width), body, twice, _same(width, 3))
