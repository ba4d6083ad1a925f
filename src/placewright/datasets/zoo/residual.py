"""Residual networks: ResNet, its pre-activation, wide and aggregated forms (batch 256 of 224x224, or CIFAR's 128)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import Tensor, nn

from placewright.datasets.zoo.layers import Parallel, Sum, convolution, head, preactivated
from placewright.datasets.zoo.objectives import entry

#: Makes a block from the channels that enter it, its width and its stride.
Block = Callable[[int, int, int], nn.Module]


def shortcut(inputs: int, outputs: int, stride: int) -> nn.Module:
    """Identity, or a projection where the shape changes."""
    if stride == 1 and inputs == outputs:
        return nn.Identity()
    return convolution(inputs, outputs, 1, stride, activation=None)


def basic(inputs: int, width: int, stride: int) -> nn.Sequential:
    """Two 3x3 convolutions (He et al., Deep Residual Learning for Image Recognition, CVPR 2016, figure 5)."""
    body = nn.Sequential(convolution(inputs, width, 3, stride), convolution(width, width, 3, activation=None))
    return nn.Sequential(Sum(body, shortcut(inputs, width, stride)), nn.ReLU())


def bottleneck(inputs: int, width: int, stride: int) -> nn.Sequential:
    """1x1, 3x3 and 1x1 to four times the width, the stride on the 3x3."""
    body = nn.Sequential(
        convolution(inputs, width),
        convolution(width, width, 3, stride),
        convolution(width, 4 * width, activation=None),
    )
    return nn.Sequential(Sum(body, shortcut(inputs, 4 * width, stride)), nn.ReLU())


def stem() -> nn.Sequential:
    """7x7 and pooling: 224x224 -> 56x56, 64 channels."""
    return nn.Sequential(convolution(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1))


def stages(block: Block, depths: Sequence[int], *, expansion: int, inputs: int = 64) -> list[nn.Sequential]:
    """Blocks of 64, 128, ... channels times the expansion, each stage but the first halving the image."""
    made = []
    for place, depth in enumerate(depths):
        width, stride = 64 * 2**place, 1 if place == 0 else 2
        rest = [block(expansion * width, width, 1) for _ in range(depth - 1)]
        made.append(nn.Sequential(block(inputs, width, stride), *rest))
        inputs = expansion * width
    return made


def resnet(block: Block, *depths: int, expansion: int = 4) -> nn.Sequential:
    """He et al. 2016, table 1, with any block."""
    return nn.Sequential(
        stem(), *stages(block, depths, expansion=expansion), head(64 * expansion * 2 ** (len(depths) - 1))
    )


class PreActivated(nn.Module):
    """Two convolutions, each after normalisation and ReLU; a projection reads what the first one reads."""

    def __init__(self, inputs: int, outputs: int, stride: int, dropout: float) -> None:
        super().__init__()
        changes = stride != 1 or inputs != outputs
        self.before = nn.Sequential(nn.BatchNorm2d(inputs), nn.ReLU())
        self.body = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False),
            *([nn.Dropout(dropout)] if dropout else []),
            preactivated(outputs, outputs, 3),
        )
        self.projection = nn.Conv2d(inputs, outputs, 1, stride, bias=False) if changes else None

    def forward(self, image: Tensor) -> Tensor:  # [batch, inputs, h, w] -> [batch, outputs, h / stride, w / stride]
        active = self.before(image)
        return self.body(active) + (image if self.projection is None else self.projection(active))


def preactivation_resnet(blocks: int, widen: int = 1, dropout: float = 0.0) -> nn.Sequential:
    """He et al., Identity Mappings in Deep Residual Networks, ECCV 2016; wide: Zagoruyko & Komodakis, BMVC 2016."""
    layers: list[nn.Module] = [nn.Conv2d(3, 16, 3, 1, 1, bias=False)]
    inputs = 16
    for place, width in enumerate((16 * widen, 32 * widen, 64 * widen)):
        for index in range(blocks):
            layers.append(PreActivated(inputs, width, 2 if place and not index else 1, dropout))
            inputs = width
    return nn.Sequential(*layers, nn.BatchNorm2d(inputs), nn.ReLU(), head(inputs, 10))


def resnext_cifar(blocks: int, cardinality: int, width: int) -> nn.Sequential:
    """Xie et al., Aggregated Residual Transformations, CVPR 2017, figure 3b: the paths written out, on CIFAR-10."""

    def block(inputs: int, stage_width: int, stride: int) -> nn.Sequential:
        inner, outputs = width * stage_width // 64, 4 * stage_width
        paths = [
            nn.Sequential(convolution(inputs, inner), convolution(inner, inner, 3, stride)) for _ in range(cardinality)
        ]
        body = nn.Sequential(Parallel(paths), convolution(cardinality * inner, outputs, activation=None))
        return nn.Sequential(Sum(body, shortcut(inputs, outputs, stride)), nn.ReLU())

    return nn.Sequential(convolution(3, 64, 3), *stages(block, [blocks] * 3, expansion=4), head(1024, 10))


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


NETWORKS = (
    entry("resnet18", "residual", lambda: resnet(basic, 2, 2, 2, 2, expansion=1), (256, 3, 224, 224)),
    entry("resnet34", "residual", lambda: resnet(basic, 3, 4, 6, 3, expansion=1), (256, 3, 224, 224)),
    entry("resnet50", "residual", lambda: resnet(bottleneck, 3, 4, 6, 3), (256, 3, 224, 224)),
    entry("resnet101", "residual", lambda: resnet(bottleneck, 3, 4, 23, 3), (256, 3, 224, 224)),
    entry("resnet152", "residual", lambda: resnet(bottleneck, 3, 8, 36, 3), (256, 3, 224, 224)),
    entry("preact_resnet110", "residual", lambda: preactivation_resnet(18), (128, 3, 32, 32)),
    entry("wide_resnet28_10", "residual", lambda: preactivation_resnet(4, 10, 0.3), (128, 3, 32, 32)),
    entry("resnext29_8x64", "residual", lambda: resnext_cifar(3, 8, 64), (128, 3, 32, 32)),
    entry("highway19", "residual", highway, (128, 3, 32, 32)),
)
