"""Cheap building blocks for ImageNet: SqueezeNet, Xception, ShuffleNet, GhostNet (batches of one replica)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from placewright.datasets.zoo.layers import Parallel, Shuffle, SqueezeExcite, Sum, convolution, head
from placewright.datasets.zoo.objectives import entry


def _plain(inputs: int, outputs: int, kernel: int, stride: int = 1, padding: int = 0) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(inputs, outputs, kernel, stride, padding), nn.ReLU())


def _fire(inputs: int, outputs: int) -> nn.Sequential:
    """Squeeze to an eighth, then expand by 1x1 and 3x3, half of the outputs each."""
    squeezed, half = outputs // 8, outputs // 2
    expand = Parallel([_plain(squeezed, half, 1), _plain(squeezed, half, 3, padding=1)])
    return nn.Sequential(_plain(inputs, squeezed, 1), expand)


def squeezenet() -> nn.Sequential:
    """Iandola et al., SqueezeNet, 2016, in its version 1.1."""
    pool = nn.MaxPool2d(3, 2, ceil_mode=True)
    return nn.Sequential(
        *(_plain(3, 64, 3, 2), pool, _fire(64, 128), _fire(128, 128), pool, _fire(128, 256), _fire(256, 256), pool),
        *(_fire(256, 384), _fire(384, 384), _fire(384, 512), _fire(512, 512), nn.Dropout(), _plain(512, 1000, 1)),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten()),
    )


def squeezenet_bypass() -> nn.Sequential:
    """Iandola et al. 2016, figure 2, right: version 1.0 with complex bypass."""
    pool = nn.MaxPool2d(3, 2, ceil_mode=True)

    def bypassed(inputs: int, outputs: int) -> Sum:
        return Sum(_fire(inputs, outputs), nn.Identity() if inputs == outputs else nn.Conv2d(inputs, outputs, 1))

    return nn.Sequential(
        *(_plain(3, 96, 7, 2), pool, bypassed(96, 128), bypassed(128, 128), bypassed(128, 256), pool),
        *(bypassed(256, 256), bypassed(256, 384), bypassed(384, 384), bypassed(384, 512), pool, bypassed(512, 512)),
        *(nn.Dropout(), _plain(512, 1000, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten()),
    )


def _separable(inputs: int, outputs: int) -> nn.Sequential:
    depthwise = nn.Conv2d(inputs, inputs, 3, 1, 1, groups=inputs, bias=False)
    return nn.Sequential(depthwise, nn.Conv2d(inputs, outputs, 1, bias=False), nn.BatchNorm2d(outputs))


def xception() -> nn.Sequential:
    """Chollet, Xception: Deep Learning with Depthwise Separable Convolutions, CVPR 2017, figure 5."""

    def block(inputs: int, middle: int, outputs: int, *, active: bool = True) -> Sum:
        layers = [*([nn.ReLU()] if active else []), _separable(inputs, middle), nn.ReLU(), _separable(middle, outputs)]
        return Sum(nn.Sequential(*layers, nn.MaxPool2d(3, 2, 1)), convolution(inputs, outputs, 1, 2, activation=None))

    def middle() -> Sum:
        layers = [layer for _ in range(3) for layer in (nn.ReLU(), _separable(728, 728))]
        return Sum(nn.Sequential(*layers), nn.Identity())

    return nn.Sequential(
        *(convolution(3, 32, 3, 2, valid=True), convolution(32, 64, 3, valid=True)),
        *(block(64, 128, 128, active=False), block(128, 256, 256), block(256, 728, 728)),
        *(*(middle() for _ in range(8)), block(728, 728, 1024)),
        *(_separable(1024, 1536), nn.ReLU(), _separable(1536, 2048), nn.ReLU(), head(2048, dropout=0.5)),
    )


def shufflenet_v1(groups: int = 3, width: int = 240) -> nn.Sequential:
    """Zhang et al., ShuffleNet, CVPR 2018, table 1."""

    def body(inputs: int, outputs: int, stride: int, first: bool) -> nn.Sequential:
        hidden = outputs // 4 if inputs == outputs else (outputs + inputs) // 4
        return nn.Sequential(
            *(convolution(inputs, hidden, groups=1 if first else groups), Shuffle(groups)),
            convolution(hidden, hidden, 3, stride, groups=hidden, activation=None),
            convolution(hidden, outputs, groups=groups, activation=None),
        )

    layers: list[nn.Module] = [convolution(3, 24, 3, 2), nn.MaxPool2d(3, 2, 1)]
    inputs = 24
    for place, depth in enumerate((4, 8, 4)):
        outputs = width * 2**place
        halved = Parallel([nn.AvgPool2d(3, 2, 1), body(inputs, outputs - inputs, 2, first=place == 0)])
        layers += [halved, nn.ReLU()]
        for _ in range(depth - 1):
            layers += [Sum(nn.Identity(), body(outputs, outputs, 1, first=False)), nn.ReLU()]
        inputs = outputs
    return nn.Sequential(*layers, head(inputs))


class Split(nn.Module):
    """Leaves one half of the channels, works on the other, and joins both."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, image: Tensor) -> Tensor:  # [batch, channels, height, width] -> the same
        left, right = image.chunk(2, dim=1)
        return torch.cat([left, self.body(right)], dim=1)


def shufflenet_v2() -> nn.Sequential:
    """Ma et al., ShuffleNet V2, ECCV 2018, figure 3 and table 5, 1x."""

    def body(inputs: int, outputs: int, stride: int) -> nn.Sequential:
        filtered = convolution(outputs, outputs, 3, stride, groups=outputs, activation=None)
        return nn.Sequential(convolution(inputs, outputs), filtered, convolution(outputs, outputs))

    layers: list[nn.Module] = [convolution(3, 24, 3, 2), nn.MaxPool2d(3, 2, 1)]
    inputs = 24
    for width, depth in ((116, 4), (232, 8), (464, 4)):
        filtered = convolution(inputs, inputs, 3, 2, groups=inputs, activation=None)
        left = nn.Sequential(filtered, convolution(inputs, width // 2))
        layers += [Parallel([left, body(inputs, width // 2, 2)]), Shuffle(2)]
        for _ in range(depth - 1):
            layers += [Split(body(width // 2, width // 2, 1)), Shuffle(2)]
        inputs = width
    return nn.Sequential(*layers, convolution(inputs, 1024), head(1024))


def _ghost(inputs: int, outputs: int, *, active: bool) -> nn.Sequential:
    """Half of the channels by 1x1, the other half from them by a depthwise 3x3."""
    activation, half = nn.ReLU if active else None, outputs // 2
    cheap = convolution(half, half, 3, groups=half, activation=activation)
    return nn.Sequential(convolution(inputs, half, activation=activation), Parallel([nn.Identity(), cheap]))


#: Blocks as (kernel, expanded, channels, gated, stride): Han et al., table 1.
GHOSTNET = (
    *((3, 16, 16, False, 1), (3, 48, 24, False, 2), (3, 72, 24, False, 1), (5, 72, 40, True, 2)),
    *((5, 120, 40, True, 1), (3, 240, 80, False, 2), (3, 200, 80, False, 1), (3, 184, 80, False, 1)),
    *((3, 184, 80, False, 1), (3, 480, 112, True, 1), (3, 672, 112, True, 1), (5, 672, 160, True, 2)),
    *((5, 960, 160, False, 1), (5, 960, 160, True, 1), (5, 960, 160, False, 1), (5, 960, 160, True, 1)),
)


def ghostnet() -> nn.Sequential:
    """Han et al., GhostNet: More Features from Cheap Operations, CVPR 2020."""

    def block(inputs: int, kernel: int, expanded: int, outputs: int, gated: bool, stride: int) -> Sum:
        body = nn.Sequential(
            _ghost(inputs, expanded, active=True),
            *([convolution(expanded, expanded, kernel, 2, groups=expanded, activation=None)] if stride == 2 else []),
            *([SqueezeExcite(expanded, expanded // 4, gate=nn.Hardsigmoid)] if gated else []),
            _ghost(expanded, outputs, active=False),
        )
        if stride == 1 and inputs == outputs:
            return Sum(body, nn.Identity())
        filtered = convolution(inputs, inputs, kernel, stride, groups=inputs, activation=None)
        return Sum(body, nn.Sequential(filtered, convolution(inputs, outputs, activation=None)))

    layers: list[nn.Module] = [convolution(3, 16, 3, 2)]
    inputs = 16
    for kernel, expanded, outputs, gated, stride in GHOSTNET:
        layers.append(block(inputs, kernel, expanded, outputs, gated, stride))
        inputs = outputs
    wide = convolution(inputs, 960), nn.AdaptiveAvgPool2d(1), nn.Conv2d(960, 1280, 1), nn.ReLU(), nn.Flatten()
    return nn.Sequential(*layers, *wide, nn.Dropout(0.2), nn.Linear(1280, 1000))


NETWORKS = (
    entry("squeezenet_1_1", "light", squeezenet, (128, 3, 224, 224)),
    entry("squeezenet_bypass", "light", squeezenet_bypass, (128, 3, 224, 224)),
    entry("xception", "light", xception, (32, 3, 299, 299)),
    entry("shufflenet_v1", "light", shufflenet_v1, (128, 3, 224, 224)),
    entry("shufflenet_v2", "light", shufflenet_v2, (128, 3, 224, 224)),
    entry("ghostnet", "light", ghostnet, (128, 3, 224, 224)),
)
