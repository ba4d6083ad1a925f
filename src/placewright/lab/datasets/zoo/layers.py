"""Layers that several families of image networks share; images are [batch, channels, height, width]."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

Size = int | tuple[int, int]
Layer = Callable[[], nn.Module]


def padding_of(kernel: Size) -> tuple[int, int]:
    """Return the padding that keeps the size of an image under an odd kernel."""
    height, width = (kernel, kernel) if isinstance(kernel, int) else kernel
    return (height - 1) // 2, (width - 1) // 2


def convolution(
    inputs: int, outputs: int, kernel: Size = 1, stride: int = 1, *, activation: Layer | None = nn.ReLU
) -> nn.Sequential:
    """Convolution without bias that keeps the size, batch normalisation, activation."""
    layers = nn.Conv2d(inputs, outputs, kernel, stride, padding_of(kernel), bias=False), nn.BatchNorm2d(outputs)
    return nn.Sequential(*layers, *([activation()] if activation else []))


def head(channels: int, classes: int = 1000, *, dropout: float = 0.0) -> nn.Sequential:
    """Global average, dropout if any, one linear layer: [batch, channels, height, width] -> [batch, classes]."""
    drop = [nn.Dropout(dropout)] if dropout else []
    return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), *drop, nn.Linear(channels, classes))


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
