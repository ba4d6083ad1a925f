"""Layers that several families of image networks share; images are [batch, channels, height, width]."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn
from torch.nn import functional

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


def resized(image: Tensor, like: Tensor) -> Tensor:  # [batch, channels, h, w], [..., H, W] -> [batch, channels, H, W]
    """Bilinear."""
    return functional.interpolate(image, size=like.shape[-2:], mode="bilinear", align_corners=False)


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
