"""Chains of convolutions: LeNet-5, All-CNN, C3D; highway networks and FractalNet."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import torch
from torch import Tensor, nn

from placewright.lab.datasets.zoo.layers import convolution, head


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


class Fractal(nn.Module):
    """The mean of one convolution and two smaller fractals in a row."""

    def __init__(self, inputs: int, outputs: int, columns: int) -> None:
        super().__init__()
        self.columns = nn.ModuleList([convolution(inputs, outputs, 3)])
        if columns > 1:
            halves = Fractal(inputs, outputs, columns - 1), Fractal(outputs, outputs, columns - 1)
            self.columns.append(nn.Sequential(*halves))

    def forward(self, image: Tensor) -> Tensor:  # [batch, inputs, height, width] -> [batch, outputs, height, width]
        results = [column(image) for column in self.columns]
        return torch.stack(results).mean(0) if len(results) > 1 else results[0]


def fractalnet(columns: int) -> nn.Sequential:
    """Larsson et al., FractalNet, ICLR 2017: five blocks on CIFAR-10, 2 ** (columns - 1) convolutions deep each."""
    widths = (3, 64, 128, 256, 512, 512)
    blocks = [
        nn.Sequential(
            Fractal(before, after, columns), nn.MaxPool2d(2), nn.Dropout(0.1 * place) if place else nn.Identity()
        )
        for place, (before, after) in enumerate(pairwise(widths))
    ]
    return nn.Sequential(*blocks, nn.Flatten(), nn.Linear(512, 10))


class Highway(nn.Module):
    """Mixes a convolution with its input by a learned gate (Srivastava et al., Training Very Deep Networks, 2015)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(channels, channels, 3, 1, 1), nn.ReLU())
        self.gate = nn.Sequential(nn.Conv2d(channels, channels, 3, 1, 1), nn.Sigmoid())

    def forward(self, image: Tensor) -> Tensor:  # [batch, channels, height, width] -> the same
        gate = self.gate(image)
        return self.body(image) * gate + image * (1 - gate)


def highway() -> nn.Sequential:
    """The 19-layer network of Srivastava et al. 2015 on CIFAR-10, in the widths of Fitnet 4."""
    layers: list[nn.Module] = []
    inputs = 3
    for width, depth in ((32, 5), (80, 6), (128, 5)):
        layers += [
            nn.Conv2d(inputs, width, 3, 1, 1),
            nn.ReLU(),
            *(Highway(width) for _ in range(depth)),
            nn.MaxPool2d(2),
        ]
        inputs = width
    return nn.Sequential(*layers, head(inputs, 10))


def c3d() -> nn.Sequential:
    """Tran et al., Learning Spatiotemporal Features with 3D Convolutional Networks, ICCV 2015, figure 3; batch 30."""

    def features() -> Iterator[nn.Module]:
        inputs = 3
        for place, (width, count) in enumerate(((64, 1), (128, 1), (256, 2), (512, 2), (512, 2))):
            for _ in range(count):
                yield from (nn.Conv3d(inputs, width, 3, 1, 1), nn.ReLU())
                inputs = width
            pool = (1, 2, 2) if place == 0 else (2, 2, 2)
            yield nn.MaxPool3d(pool, pool, (0, 1, 1) if place == 4 else 0)

    dense = nn.Flatten(), nn.Linear(8192, 4096), nn.ReLU(), nn.Dropout(), nn.Linear(4096, 4096), nn.ReLU(), nn.Dropout()
    return nn.Sequential(*features(), *dense, nn.Linear(4096, 487))
