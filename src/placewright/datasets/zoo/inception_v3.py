"""Inception-v3 (Szegedy et al., Rethinking the Inception Architecture for Computer Vision, CVPR 2016, section 6)."""

from __future__ import annotations

from functools import partial

from torch import Tensor, nn
from torch.nn import functional

from placewright.datasets.zoo.layers import Parallel, Size
from placewright.datasets.zoo.layers import convolution as any_convolution

convolution = partial(any_convolution, epsilon=0.001)


def chain(inputs: int, *layers: tuple[int, Size]) -> nn.Sequential:
    """Convolutions one after the other, each given by its channels and kernel."""
    widths = [inputs, *(channels for channels, _ in layers)]
    return nn.Sequential(
        *(convolution(before, after, kernel) for before, (after, kernel) in zip(widths, layers, strict=False))
    )


def pooled(inputs: int, channels: int) -> nn.Sequential:
    """The branch that averages 3x3 and projects."""
    return nn.Sequential(nn.AvgPool2d(3, 1, 1), convolution(inputs, channels, 1))


def grid_35(inputs: int, pool_channels: int) -> Parallel:
    """Figure 5: a 5x5 convolution as two of 3x3."""
    return Parallel(
        [
            chain(inputs, (64, 1)),
            chain(inputs, (48, 1), (64, 5)),
            chain(inputs, (64, 1), (96, 3), (96, 3)),
            pooled(inputs, pool_channels),
        ]
    )


def grid_17(channels: int) -> Parallel:
    """Figure 6 with n = 7: 7x7 convolutions as 1x7 and 7x1; `channels` inside the long branches."""
    row, column = (1, 7), (7, 1)
    double = [(channels, column), (channels, row), (channels, column), (192, row)]
    return Parallel(
        [
            chain(768, (192, 1)),
            chain(768, (channels, 1), (channels, row), (192, column)),
            chain(768, (channels, 1), *double),
            pooled(768, 192),
        ]
    )


def grid_8(inputs: int) -> Parallel:
    """Figure 7: 1x3 and 3x1 side by side."""

    def spread() -> Parallel:
        return Parallel([convolution(384, 384, (1, 3)), convolution(384, 384, (3, 1))])

    return Parallel(
        [
            chain(inputs, (320, 1)),
            nn.Sequential(convolution(inputs, 384, 1), spread()),
            nn.Sequential(chain(inputs, (448, 1), (384, 3)), spread()),
            pooled(inputs, 192),
        ]
    )


def reduce_to_17() -> Parallel:
    """Figure 10: halves 35x35 to 17x17."""
    double = nn.Sequential(chain(288, (64, 1), (96, 3)), convolution(96, 96, 3, 2, valid=True))
    return Parallel([convolution(288, 384, 3, 2, valid=True), double, nn.MaxPool2d(3, 2)])


def reduce_to_8() -> Parallel:
    """Halves 17x17 to 8x8."""
    single = nn.Sequential(convolution(768, 192, 1), convolution(192, 320, 3, 2, valid=True))
    double = nn.Sequential(chain(768, (192, 1), (192, (1, 7)), (192, (7, 1))), convolution(192, 192, 3, 2, valid=True))
    return Parallel([single, double, nn.MaxPool2d(3, 2)])


class InceptionV3(nn.Module):
    """Classifier of 299x299 images; in training it also returns the logits of the auxiliary classifier."""

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            convolution(3, 32, 3, 2, valid=True),
            convolution(32, 32, 3, valid=True),
            convolution(32, 64, 3),
            nn.MaxPool2d(3, 2),
            convolution(64, 80, 1),
            convolution(80, 192, 3, valid=True),
            nn.MaxPool2d(3, 2),
        )
        self.grid_35 = nn.Sequential(grid_35(192, 32), grid_35(256, 64), grid_35(288, 64), reduce_to_17())
        self.grid_17 = nn.Sequential(grid_17(128), grid_17(160), grid_17(160), grid_17(192))
        self.auxiliary = nn.Sequential(
            nn.AvgPool2d(5, 3),
            convolution(768, 128, 1),
            convolution(128, 768, 5, valid=True),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(768, classes),
        )
        self.grid_8 = nn.Sequential(reduce_to_8(), grid_8(1280), grid_8(2048))
        self.head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Dropout(), nn.Flatten(), nn.Linear(2048, classes))

    def forward(self, image: Tensor) -> Tensor | tuple[Tensor, Tensor]:  # [batch, 3, 299, 299]
        middle = self.grid_17(self.grid_35(self.stem(image)))  # [batch, 768, 17, 17]
        logits = self.head(self.grid_8(middle))  # [batch, classes]
        return (logits, self.auxiliary(middle)) if self.training else logits


class TrainingLoss(nn.Module):
    """Cross entropy of both classifiers, the auxiliary one weighted 0.4 as in the TensorFlow reference."""

    def __init__(self, model: InceptionV3) -> None:
        super().__init__()
        self.model = model

    def forward(self, image: Tensor, label: Tensor) -> Tensor:  # [batch, 3, 299, 299], [batch]
        logits, auxiliary = self.model(image)
        return functional.cross_entropy(logits, label) + 0.4 * functional.cross_entropy(auxiliary, label)
