"""Inverted bottlenecks and their search spaces: MobileNet, MNASNet, EfficientNet, RegNet (batches of one replica)."""

from __future__ import annotations

import math
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from torch import nn

from placewright.datasets.zoo.layers import Layer, SqueezeExcite, Sum, convolution, head, rounded
from placewright.datasets.zoo.objectives import entry
from placewright.datasets.zoo.residual import shortcut


def mobilenet_v1() -> nn.Sequential:
    """Howard et al., MobileNets, 2017, table 1."""
    widths = (32, 64, 128, 128, 256, 256, 512, 512, 512, 512, 512, 512, 1024, 1024)

    def blocks() -> Iterator[nn.Module]:
        for before, after in pairwise(widths):
            stride = 2 if after > before and before > 32 else 1
            yield from (convolution(before, before, 3, stride, groups=before), convolution(before, after))

    return nn.Sequential(convolution(3, 32, 3, 2), *blocks(), head(1024))


@dataclass(frozen=True, kw_only=True)
class Inverted:
    """One inverted bottleneck: expand, filter each channel, gate if `hidden`, project; added where the shape allows."""

    inputs: int
    expanded: int
    outputs: int
    kernel: int = 3
    stride: int = 1
    hidden: int = 0
    activation: Layer = nn.ReLU
    gate: Layer = nn.Sigmoid

    def build(self) -> nn.Module:
        """The block, after Sandler et al., MobileNetV2, CVPR 2018, figure 4, and Howard et al. 2019, figure 4."""
        width, active = self.expanded, self.activation
        squeezed = nn.ReLU if self.gate is nn.Hardsigmoid else active
        body = nn.Sequential(
            *([convolution(self.inputs, width, activation=active)] if width != self.inputs else []),
            convolution(width, width, self.kernel, self.stride, groups=width, activation=active),
            *([SqueezeExcite(width, self.hidden, squeezed, self.gate)] if self.hidden else []),
            convolution(width, self.outputs, activation=None),
        )
        fits = self.stride == 1 and self.inputs == self.outputs
        return Sum(nn.Identity(), body) if fits else body


#: Stages as (expansion, channels, blocks, stride, kernel).
Stages = Sequence[tuple[int, int, int, int, int]]
MOBILENET_V2: Stages = (
    *((1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 32, 3, 2, 3), (6, 64, 4, 2, 3)),
    *((6, 96, 3, 1, 3), (6, 160, 3, 2, 3), (6, 320, 1, 1, 3)),
)
MNASNET_A1: Stages = (
    *((1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (3, 40, 3, 2, 5), (6, 80, 4, 2, 3)),
    *((6, 112, 2, 1, 3), (6, 160, 3, 2, 5), (6, 320, 1, 1, 3)),
)
EFFICIENTNET: Stages = (
    *((1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3)),
    *((6, 112, 3, 1, 5), (6, 192, 4, 2, 5), (6, 320, 1, 1, 3)),
)


def staged(
    stages: Stages,
    *,
    width: float = 1.0,
    depth: float = 1.0,
    gated: Container[int] = (),
    activation: Layer = nn.ReLU6,
) -> nn.Sequential:
    """Stem, inverted bottlenecks, 1x1 convolution and classifier, channels and blocks scaled by `width` and `depth`;
    the blocks of the `gated` stages have squeeze-and-excitation."""
    inputs = rounded(32 * width)
    layers: list[nn.Module] = [convolution(3, inputs, 3, 2, activation=activation)]
    for place, (expansion, channels, blocks, stride, kernel) in enumerate(stages):
        for index in range(math.ceil(blocks * depth)):
            block = Inverted(
                inputs=inputs,
                expanded=expansion * inputs,
                outputs=rounded(channels * width),
                kernel=kernel,
                stride=1 if index else stride,
                hidden=inputs // 4 if place in gated else 0,
                activation=activation,
            )
            layers.append(block.build())
            inputs = block.outputs
    last = rounded(1280 * max(1.0, width))
    return nn.Sequential(*layers, convolution(inputs, last, activation=activation), head(last, dropout=0.2))


#: Blocks as (kernel, expanded, channels, gated, hard swish, stride): Howard et al., ICCV 2019, tables 1 and 2.
Blocks = Sequence[tuple[int, int, int, bool, bool, int]]
MOBILENET_V3_LARGE: Blocks = (
    *((3, 16, 16, False, False, 1), (3, 64, 24, False, False, 2), (3, 72, 24, False, False, 1)),
    *((5, 72, 40, True, False, 2), (5, 120, 40, True, False, 1), (5, 120, 40, True, False, 1)),
    *((3, 240, 80, False, True, 2), (3, 200, 80, False, True, 1), (3, 184, 80, False, True, 1)),
    *((3, 184, 80, False, True, 1), (3, 480, 112, True, True, 1), (3, 672, 112, True, True, 1)),
    *((5, 672, 160, True, True, 2), (5, 960, 160, True, True, 1), (5, 960, 160, True, True, 1)),
)
MOBILENET_V3_SMALL: Blocks = (
    *((3, 16, 16, True, False, 2), (3, 72, 24, False, False, 2), (3, 88, 24, False, False, 1)),
    *((5, 96, 40, True, True, 2), (5, 240, 40, True, True, 1), (5, 240, 40, True, True, 1)),
    *((5, 120, 48, True, True, 1), (5, 144, 48, True, True, 1), (5, 288, 96, True, True, 2)),
    *((5, 576, 96, True, True, 1), (5, 576, 96, True, True, 1)),
)


def mobilenet_v3(blocks: Blocks, last: int) -> nn.Sequential:
    """Howard et al., Searching for MobileNetV3, ICCV 2019; `last` is the width of the layer before the classifier."""
    layers: list[nn.Module] = [convolution(3, 16, 3, 2, activation=nn.Hardswish)]
    inputs = 16
    for kernel, expanded, outputs, gated, hard, stride in blocks:
        block = Inverted(
            inputs=inputs,
            expanded=expanded,
            outputs=outputs,
            kernel=kernel,
            stride=stride,
            hidden=rounded(expanded / 4) if gated else 0,
            activation=nn.Hardswish if hard else nn.ReLU,
            gate=nn.Hardsigmoid,
        )
        layers.append(block.build())
        inputs = outputs
    classifier = nn.Linear(6 * inputs, last), nn.Hardswish(), nn.Dropout(0.2), nn.Linear(last, 1000)
    wide = convolution(inputs, 6 * inputs, activation=nn.Hardswish)
    return nn.Sequential(*layers, wide, nn.AdaptiveAvgPool2d(1), nn.Flatten(), *classifier)


def regnet(depths: Sequence[int], widths: Sequence[int], group: int, *, gated: bool) -> nn.Sequential:
    """Radosavovic et al., Designing Network Design Spaces, CVPR 2020, figure 4; gated is the Y form."""

    def block(inputs: int, width: int, stride: int) -> nn.Sequential:
        body = nn.Sequential(
            *(convolution(inputs, width), convolution(width, width, 3, stride, groups=width // group)),
            *([SqueezeExcite(width, round(inputs / 4))] if gated else []),
            convolution(width, width, activation=None),
        )
        return nn.Sequential(Sum(shortcut(inputs, width, stride), body), nn.ReLU())

    layers: list[nn.Module] = [convolution(3, 32, 3, 2)]
    inputs = 32
    for depth, width in zip(depths, widths, strict=True):
        for index in range(depth):
            layers.append(block(inputs, width, 1 if index else 2))
            inputs = width
    return nn.Sequential(*layers, head(inputs))


def mnasnet() -> nn.Sequential:
    """Tan et al., MnasNet, CVPR 2019, figure 7: MnasNet-A1."""
    return staged(MNASNET_A1, gated=(2, 4, 5), activation=nn.ReLU)


def efficientnet(width: float, depth: float) -> nn.Sequential:
    """Tan & Le, EfficientNet, ICML 2019, table 1, without dropping whole blocks."""
    return staged(EFFICIENTNET, width=width, depth=depth, gated=range(7), activation=nn.SiLU)


REGNET_X = (1, 2, 7, 12), (32, 64, 160, 400)
REGNET_Y = (1, 3, 6, 6), (48, 104, 208, 440)

NETWORKS = (
    entry("mobilenet_v1", "mobile", mobilenet_v1, (96, 3, 224, 224)),
    entry("mobilenet_v2", "mobile", lambda: staged(MOBILENET_V2), (96, 3, 224, 224)),
    entry("mobilenet_v3_large", "mobile", lambda: mobilenet_v3(MOBILENET_V3_LARGE, 1280), (128, 3, 224, 224)),
    entry("mobilenet_v3_small", "mobile", lambda: mobilenet_v3(MOBILENET_V3_SMALL, 1024), (128, 3, 224, 224)),
    entry("mnasnet_a1", "mobile", mnasnet, (128, 3, 224, 224)),
    entry("efficientnet_b0", "mobile", lambda: efficientnet(1.0, 1.0), (32, 3, 224, 224)),
    entry("efficientnet_b4", "mobile", lambda: efficientnet(1.4, 1.8), (32, 3, 380, 380)),
    entry("regnet_x_400mf", "mobile", lambda: regnet(*REGNET_X, 16, gated=False), (128, 3, 224, 224)),
    entry("regnet_y_400mf", "mobile", lambda: regnet(*REGNET_Y, 8, gated=True), (128, 3, 224, 224)),
)
