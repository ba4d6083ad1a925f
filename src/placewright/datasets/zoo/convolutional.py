"""Chains of convolutions: LeNet-5, AlexNet, VGG, Network in Network, All-CNN, FractalNet, RepVGG."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from placewright.datasets.zoo.layers import Sum, convolution, head
from placewright.datasets.zoo.objectives import entry


def lenet() -> nn.Sequential:
    """LeCun et al., Gradient-Based Learning Applied to Document Recognition, 1998: 32x32 digits."""
    return nn.Sequential(
        *(nn.Conv2d(1, 6, 5), nn.Tanh(), nn.AvgPool2d(2), nn.Conv2d(6, 16, 5), nn.Tanh(), nn.AvgPool2d(2)),
        *(nn.Conv2d(16, 120, 5), nn.Tanh(), nn.Flatten(), nn.Linear(120, 84), nn.Tanh(), nn.Linear(84, 10)),
    )


def alexnet() -> nn.Sequential:
    """Krizhevsky et al., ImageNet Classification with Deep Convolutional Networks, 2012; both halves as groups."""

    def dense(inputs: int, outputs: int) -> Iterator[nn.Module]:
        yield from (nn.Linear(inputs, outputs), nn.ReLU(), nn.Dropout())

    return nn.Sequential(
        *(nn.Conv2d(3, 96, 11, 4), nn.ReLU(), nn.LocalResponseNorm(5), nn.MaxPool2d(3, 2)),
        *(nn.Conv2d(96, 256, 5, 1, 2, groups=2), nn.ReLU(), nn.LocalResponseNorm(5), nn.MaxPool2d(3, 2)),
        *(nn.Conv2d(256, 384, 3, 1, 1), nn.ReLU(), nn.Conv2d(384, 384, 3, 1, 1, groups=2), nn.ReLU()),
        *(nn.Conv2d(384, 256, 3, 1, 1, groups=2), nn.ReLU(), nn.MaxPool2d(3, 2), nn.Flatten()),
        *(*dense(9216, 4096), *dense(4096, 4096), nn.Linear(4096, 1000)),
    )


def vgg(*convolutions: int) -> nn.Sequential:
    """Simonyan & Zisserman, Very Deep Convolutional Networks, ICLR 2015: convolutions per stage."""

    def features() -> Iterator[nn.Module]:
        inputs = 3
        for count, channels in zip(convolutions, (64, 128, 256, 512, 512), strict=True):
            for _ in range(count):
                yield from (nn.Conv2d(inputs, channels, 3, 1, 1), nn.ReLU())
                inputs = channels
            yield nn.MaxPool2d(2)

    return nn.Sequential(
        *(*features(), nn.Flatten(), nn.Linear(25088, 4096), nn.ReLU(), nn.Dropout()),
        *(nn.Linear(4096, 4096), nn.ReLU(), nn.Dropout(), nn.Linear(4096, 1000)),
    )


def _plain(inputs: int, outputs: int, kernel: int, stride: int = 1, padding: int = 0) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(inputs, outputs, kernel, stride, padding), nn.ReLU())


def network_in_network() -> nn.Sequential:
    """Lin et al., Network In Network, ICLR 2014, on CIFAR-10."""

    def block(inputs: int, widths: Sequence[int], kernel: int) -> Iterator[nn.Module]:
        yield _plain(inputs, widths[0], kernel, padding=kernel // 2)
        yield from (_plain(widths[0], widths[1], 1), _plain(widths[1], widths[2], 1))

    return nn.Sequential(
        *(*block(3, (192, 160, 96), 5), nn.MaxPool2d(3, 2, 1), nn.Dropout()),
        *(*block(96, (192, 192, 192), 5), nn.AvgPool2d(3, 2, 1), nn.Dropout()),
        *(*block(192, (192, 192, 10), 3), nn.AdaptiveAvgPool2d(1), nn.Flatten()),
    )


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


def repvgg(*depths: int) -> nn.Sequential:
    """Ding et al., RepVGG, CVPR 2021, before its branches are merged: 3x3, 1x1 and, where it fits, identity."""

    def block(inputs: int, outputs: int, stride: int) -> nn.Sequential:
        branches = [convolution(inputs, outputs, kernel, stride, activation=None) for kernel in (3, 1)]
        if stride == 1 and inputs == outputs:
            branches.append(nn.BatchNorm2d(inputs))
        return nn.Sequential(Sum(*branches), nn.ReLU())

    blocks, inputs = [block(3, 48, 2)], 48
    for depth, width in zip(depths, (48, 96, 192, 1280), strict=True):
        for place in range(depth):
            blocks.append(block(inputs, width, 1 if place else 2))
            inputs = width
    return nn.Sequential(*blocks, head(inputs))


#: Batches and image sizes are those of the papers' training.
NETWORKS = (
    entry("lenet5", "convolutional", lenet, (64, 1, 32, 32)),
    entry("alexnet", "convolutional", alexnet, (128, 3, 227, 227)),
    entry("vgg11", "convolutional", lambda: vgg(1, 1, 2, 2, 2), (256, 3, 224, 224)),
    entry("vgg16", "convolutional", lambda: vgg(2, 2, 3, 3, 3), (256, 3, 224, 224)),
    entry("vgg19", "convolutional", lambda: vgg(2, 2, 4, 4, 4), (256, 3, 224, 224)),
    entry("network_in_network", "convolutional", network_in_network, (128, 3, 32, 32)),
    entry("all_cnn", "convolutional", all_convolutional, (128, 3, 32, 32)),
    entry("fractalnet20", "convolutional", lambda: fractalnet(3), (100, 3, 32, 32)),
    entry("fractalnet40", "convolutional", lambda: fractalnet(4), (100, 3, 32, 32)),
    entry("repvgg_a0", "convolutional", lambda: repvgg(2, 4, 14, 1), (256, 3, 224, 224)),
)
