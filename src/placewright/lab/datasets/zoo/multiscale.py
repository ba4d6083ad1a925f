"""Several resolutions at once: stacked hourglasses."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from placewright.lab.datasets.zoo.layers import Sum, convolution, preactivated


def _residual(inputs: int, outputs: int) -> Sum:
    half = outputs // 2
    body = nn.Sequential(preactivated(inputs, half), preactivated(half, half, 3), preactivated(half, outputs))
    return Sum(body, nn.Identity() if inputs == outputs else nn.Conv2d(inputs, outputs, 1))


class Hourglass(nn.Module):
    """Down, a smaller hourglass, up, plus a path that keeps the size."""

    def __init__(self, depth: int, width: int) -> None:
        super().__init__()
        self.keep = _residual(width, width)
        inner = Hourglass(depth - 1, width) if depth > 1 else _residual(width, width)
        self.through = nn.Sequential(nn.MaxPool2d(2), _residual(width, width), inner, _residual(width, width))

    def forward(self, image: Tensor) -> Tensor:  # [batch, width, height, width] -> the same
        return self.keep(image) + functional.interpolate(self.through(image), scale_factor=2.0)


class StackedHourglass(nn.Module):
    """Newell et al., Stacked Hourglass Networks for Human Pose Estimation, ECCV 2016: supervised after each."""

    def __init__(self, stacks: int, width: int = 256, joints: int = 16) -> None:
        super().__init__()
        first = convolution(3, 64, 7, 2), _residual(64, 128), nn.MaxPool2d(2), _residual(128, 128)
        self.stem = nn.Sequential(*first, _residual(128, width))
        self.bodies = nn.ModuleList(
            nn.Sequential(Hourglass(4, width), _residual(width, width), convolution(width, width))
            for _ in range(stacks)
        )
        self.heatmaps = nn.ModuleList(nn.Conv2d(width, joints, 1) for _ in range(stacks))
        self.features = nn.ModuleList(nn.Conv2d(width, width, 1) for _ in range(stacks - 1))
        self.back = nn.ModuleList(nn.Conv2d(joints, width, 1) for _ in range(stacks - 1))

    def forward(self, image: Tensor) -> Tensor:  # [batch, 3, 256, 256] -> [stacks, batch, joints, 64, 64]
        image, results = self.stem(image), []
        for place, (body, heatmap) in enumerate(zip(self.bodies, self.heatmaps, strict=True)):
            features = body(image)
            results.append(heatmap(features))
            if place < len(self.back):
                image = image + self.features[place](features) + self.back[place](results[-1])
        return torch.stack(results)
