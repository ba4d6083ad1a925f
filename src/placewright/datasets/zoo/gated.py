"""ResNet-50 with other bottlenecks: SENet, SKNet, CBAM, Res2Net."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn

from placewright.datasets.zoo.layers import SqueezeExcite, Sum, convolution
from placewright.datasets.zoo.objectives import entry
from placewright.datasets.zoo.residual import resnet, shortcut


def squeezed(inputs: int, width: int, stride: int) -> nn.Sequential:
    """Hu et al., Squeeze-and-Excitation Networks, CVPR 2018, figure 3."""
    outputs = 4 * width
    body = nn.Sequential(
        *(
            convolution(inputs, width),
            convolution(width, width, 3, stride),
            convolution(width, outputs, activation=None),
        ),
        SqueezeExcite(outputs, outputs // 16),
    )
    return nn.Sequential(Sum(body, shortcut(inputs, outputs, stride)), nn.ReLU())


class Selective(nn.Module):
    """Branches of two kernels, mixed by a softmax over them for each channel."""

    def __init__(self, channels: int, stride: int, groups: int = 32) -> None:
        super().__init__()
        hidden = max(channels // 16, 32)
        self.branches = nn.ModuleList(
            convolution(channels, channels, 3, stride, groups=groups, dilation=dilation) for dilation in (1, 2)
        )
        self.squeeze = nn.Sequential(nn.AdaptiveAvgPool2d(1), convolution(channels, hidden))
        self.scores = nn.ModuleList(nn.Conv2d(hidden, channels, 1, bias=False) for _ in self.branches)

    def forward(self, image: Tensor) -> Tensor:  # [batch, channels, h, w] -> [batch, channels, h / stride, w / stride]
        results = [branch(image) for branch in self.branches]
        squeezed = self.squeeze(results[0] + results[1])  # [batch, hidden, 1, 1]
        weights = torch.stack([score(squeezed) for score in self.scores]).softmax(0)  # [2, batch, channels, 1, 1]
        return results[0] * weights[0] + results[1] * weights[1]


def selective(inputs: int, width: int, stride: int) -> nn.Sequential:
    """Li et al., Selective Kernel Networks, CVPR 2019, table 1: SKNet-50."""
    outputs = 4 * width
    middle = nn.Sequential(convolution(inputs, 2 * width), Selective(2 * width, stride))
    body = nn.Sequential(middle, convolution(2 * width, outputs, activation=None))
    return nn.Sequential(Sum(body, shortcut(inputs, outputs, stride)), nn.ReLU())


class BlockAttention(nn.Module):
    """Gates channels, then places, by what averages and maxima say."""

    def __init__(self, channels: int, reduction: int = 16) -> None:
        super().__init__()
        hidden = channels // reduction
        self.channel = nn.Sequential(nn.Linear(channels, hidden), nn.ReLU(), nn.Linear(hidden, channels))
        self.place = convolution(2, 1, 7, activation=nn.Sigmoid)

    def forward(self, image: Tensor) -> Tensor:  # [batch, channels, height, width] -> the same
        scores = self.channel(image.mean((2, 3))) + self.channel(image.amax((2, 3)))  # [batch, channels]
        image = image * scores.sigmoid()[:, :, None, None]
        summary = torch.cat([image.amax(1, keepdim=True), image.mean(1, keepdim=True)], dim=1)  # [batch, 2, h, w]
        return image * self.place(summary)


def attentive(inputs: int, width: int, stride: int) -> nn.Sequential:
    """Woo et al., CBAM: Convolutional Block Attention Module, ECCV 2018, figure 3."""
    outputs = 4 * width
    body = nn.Sequential(
        *(
            convolution(inputs, width),
            convolution(width, width, 3, stride),
            convolution(width, outputs, activation=None),
        ),
        BlockAttention(outputs),
    )
    return nn.Sequential(Sum(body, shortcut(inputs, outputs, stride)), nn.ReLU())


class Scales(nn.Module):
    """Groups of channels, each convolved after the result of the one before is added; the last one passes."""

    def __init__(self, width: int, stride: int, scales: int, first: bool) -> None:
        super().__init__()
        self.first = first
        self.bodies = nn.ModuleList(convolution(width, width, 3, stride) for _ in range(scales - 1))
        self.last = nn.AvgPool2d(3, stride, 1) if first else nn.Identity()

    def forward(self, image: Tensor) -> Tensor:  # [batch, scales * width, h, w] -> the same, or halved
        *parts, last = image.chunk(len(self.bodies) + 1, dim=1)
        results: list[Tensor] = []
        for part, body in zip(parts, self.bodies, strict=True):
            results.append(body(part if self.first or not results else part + results[-1]))
        return torch.cat([*results, self.last(last)], dim=1)


def multiscale(inputs: int, width: int, stride: int, *, base: int = 26, scales: int = 4) -> nn.Sequential:
    """Gao et al., Res2Net, 2019, figure 2b: Res2Net-50 26w x 4s."""
    outputs, each = 4 * width, base * width // 64
    middle = Scales(each, stride, scales, first=stride == 2 or inputs != outputs)
    body = nn.Sequential(
        convolution(inputs, scales * each), middle, convolution(scales * each, outputs, activation=None)
    )
    return nn.Sequential(Sum(body, shortcut(inputs, outputs, stride)), nn.ReLU())


#: Batch 256 of 224x224 as for ResNet-50.
NETWORKS = tuple(
    entry(name, "gated", partial(resnet, block, 3, 4, 6, 3), (256, 3, 224, 224))
    for name, block in (
        ("se_resnet50", squeezed),
        ("sknet50", selective),
        ("cbam_resnet50", attentive),
        ("res2net50", multiscale),
    )
)
