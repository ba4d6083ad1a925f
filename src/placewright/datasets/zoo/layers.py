"""Layers that several families of image networks share; images are [batch, channels, height, width]."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn

Size = int | tuple[int, int]
Layer = Callable[[], nn.Module]


def padding_of(kernel: Size, dilation: int = 1) -> tuple[int, int]:
    """What keeps the size of an image under an odd kernel."""
    height, width = (kernel, kernel) if isinstance(kernel, int) else kernel
    return dilation * (height - 1) // 2, dilation * (width - 1) // 2


def convolution(
    inputs: int,
    outputs: int,
    kernel: Size = 1,
    stride: int = 1,
    *,
    groups: int = 1,
    dilation: int = 1,
    valid: bool = False,
    epsilon: float = 1e-5,
    activation: Layer | None = nn.ReLU,
) -> nn.Sequential:
    """Convolution without bias, batch normalisation, activation; padding keeps the size unless `valid`."""
    padding = (0, 0) if valid else padding_of(kernel, dilation)
    layers = [
        nn.Conv2d(inputs, outputs, kernel, stride, padding, dilation, groups, bias=False),
        nn.BatchNorm2d(outputs, eps=epsilon),
    ]
    return nn.Sequential(*layers, *([activation()] if activation else []))


def preactivated(inputs: int, outputs: int, kernel: Size = 1, stride: int = 1) -> nn.Sequential:
    """Batch normalisation, ReLU, convolution without bias."""
    return nn.Sequential(
        nn.BatchNorm2d(inputs),
        nn.ReLU(),
        nn.Conv2d(inputs, outputs, kernel, stride, padding_of(kernel), bias=False),
    )


def head(channels: int, classes: int = 1000, *, dropout: float = 0.0) -> nn.Sequential:
    """Global average, dropout if any, one linear layer: [batch, channels, height, width] -> [batch, classes]."""
    drop = [nn.Dropout(dropout)] if dropout else []
    return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), *drop, nn.Linear(channels, classes))


def rounded(channels: float, multiple: int = 8) -> int:
    """The nearest multiple, at least one, that is not below nine tenths of it (Sandler et al., MobileNetV2, 2018)."""
    nearest = max(multiple, int(channels + multiple / 2) // multiple * multiple)
    return nearest + multiple if nearest < 0.9 * channels else nearest


class Parallel(nn.Module):
    """Branches over one input, joined along the channels."""

    def __init__(self, branches: Iterable[nn.Module]) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, image: Tensor) -> Tensor:  # [batch, inputs, ...] -> [batch, sum of channels, ...]
        return torch.cat([branch(image) for branch in self.branches], dim=1)


class Sum(nn.Module):
    """Branches over one input, added one after the other; a body and its shortcut make a residual block."""

    def __init__(self, *branches: nn.Module) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, image: Tensor) -> Tensor:  # [batch, inputs, ...] -> [batch, outputs, ...]
        total, *others = [branch(image) for branch in self.branches]
        for other in others:
            total = total + other
        return total


class SqueezeExcite(nn.Module):
    """Scales channels by a gate computed from their means (Hu et al., Squeeze-and-Excitation Networks, CVPR 2018)."""

    def __init__(self, channels: int, hidden: int, activation: Layer = nn.ReLU, gate: Layer = nn.Sigmoid) -> None:
        super().__init__()
        self.gate = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            nn.Conv2d(channels, hidden, 1),
            activation(),
            nn.Conv2d(hidden, channels, 1),
            gate(),
        )

    def forward(self, image: Tensor) -> Tensor:  # [batch, channels, height, width] -> the same
        return image * self.gate(image)


class Shuffle(nn.Module):
    """Interleaves groups of channels (Zhang et al., ShuffleNet, CVPR 2018, section 3.1)."""

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, image: Tensor) -> Tensor:  # [batch, channels, height, width] -> the same
        batch, channels, height, width = image.shape
        grouped = image.view(batch, self.groups, channels // self.groups, height, width)
        return grouped.transpose(1, 2).reshape(batch, channels, height, width)
