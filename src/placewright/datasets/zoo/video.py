"""Convolutions over space and time: C3D, 3D and (2+1)D ResNets, I3D; 16 frames of 112x112 unless said."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from torch import nn

from placewright.datasets.zoo.layers import Parallel, Sum
from placewright.datasets.zoo.objectives import entry

#: Frames, height, width.
Size = tuple[int, int, int]


def convolution(
    inputs: int, outputs: int, kernel: Size, stride: Size = (1, 1, 1), *, active: bool = True
) -> nn.Sequential:
    """Convolution without bias, batch normalisation, ReLU; padding keeps the size."""
    padding = tuple(extent // 2 for extent in kernel)
    made = nn.Conv3d(inputs, outputs, kernel, stride, padding, bias=False)
    return nn.Sequential(made, nn.BatchNorm3d(outputs), *([nn.ReLU()] if active else []))


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


def full(inputs: int, outputs: int, stride: int) -> list[nn.Module]:
    """One 3x3x3 convolution and its normalisation."""
    return [*convolution(inputs, outputs, (3, 3, 3), (stride, stride, stride), active=False)]


def factored(inputs: int, outputs: int, stride: int) -> list[nn.Module]:
    """1x3x3, then 3x1x1, as many weights as 3x3x3 (section 3.5)."""
    middle = inputs * outputs * 27 // (inputs * 9 + 3 * outputs)
    space = convolution(inputs, middle, (1, 3, 3), (1, stride, stride))
    return [*space, *convolution(middle, outputs, (3, 1, 1), (stride, 1, 1), active=False)]


def video_resnet(*, factor: bool) -> nn.Sequential:
    """Tran et al., A Closer Look at Spatiotemporal Convolutions, CVPR 2018: R3D-18 and R(2+1)D-18; batch 32."""
    make = factored if factor else full

    def block(inputs: int, outputs: int, stride: int) -> nn.Sequential:
        shortcut: nn.Module = nn.Identity()
        if inputs != outputs:
            shortcut = convolution(inputs, outputs, (1, 1, 1), (stride, stride, stride), active=False)
        body = nn.Sequential(*make(inputs, outputs, stride), nn.ReLU(), *make(outputs, outputs, 1))
        return nn.Sequential(Sum(body, shortcut), nn.ReLU())

    layers: list[nn.Module] = [convolution(3, 45, (1, 7, 7), (1, 2, 2)), convolution(45, 64, (3, 1, 1))]
    if not factor:
        layers = [convolution(3, 64, (3, 7, 7), (1, 2, 2))]
    inputs = 64
    for width in (64, 128, 256, 512):
        layers += [block(inputs, width, 1 if width == 64 else 2), block(width, width, 1)]
        inputs = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(512, 400))


def _inflated(inputs: int, direct: int, before: int, of: int, before_2: int, of_2: int, pool: int) -> Parallel:
    point, cube = (1, 1, 1), (3, 3, 3)
    return Parallel(
        [
            convolution(inputs, direct, point),
            nn.Sequential(convolution(inputs, before, point), convolution(before, of, cube)),
            nn.Sequential(convolution(inputs, before_2, point), convolution(before_2, of_2, cube)),
            nn.Sequential(nn.MaxPool3d(3, 1, 1), convolution(inputs, pool, point)),
        ]
    )


def i3d() -> nn.Sequential:
    """Carreira & Zisserman, Quo Vadis, Action Recognition?, CVPR 2017, figure 3: 64 frames of 224x224, batch 6."""
    halve, halve_space = nn.MaxPool3d(3, 2, 1), nn.MaxPool3d((1, 3, 3), (1, 2, 2), (0, 1, 1))
    first = convolution(3, 64, (7, 7, 7), (2, 2, 2)), halve_space, convolution(64, 64, (1, 1, 1))
    third = _inflated(192, 64, 96, 128, 16, 32, 32), _inflated(256, 128, 128, 192, 32, 96, 64)
    fourth = (
        *(_inflated(480, 192, 96, 208, 16, 48, 64), _inflated(512, 160, 112, 224, 24, 64, 64)),
        *(_inflated(512, 128, 128, 256, 24, 64, 64), _inflated(512, 112, 144, 288, 32, 64, 64)),
        _inflated(528, 256, 160, 320, 32, 128, 128),
    )
    fifth = _inflated(832, 256, 160, 320, 32, 128, 128), _inflated(832, 384, 192, 384, 48, 128, 128)
    last = nn.AvgPool3d((2, 7, 7), 1), nn.Dropout(), nn.Conv3d(1024, 400, 1), nn.AdaptiveAvgPool3d(1), nn.Flatten()
    second = convolution(64, 192, (3, 3, 3)), halve_space
    return nn.Sequential(*first, *second, *third, halve, *fourth, nn.MaxPool3d(2), *fifth, *last)


NETWORKS = (
    entry("c3d", "video", c3d, (30, 3, 16, 112, 112)),
    entry("r3d18", "video", partial(video_resnet, factor=False), (32, 3, 16, 112, 112)),
    entry("r2plus1d18", "video", partial(video_resnet, factor=True), (32, 3, 16, 112, 112)),
    entry("i3d", "video", i3d, (6, 3, 64, 224, 224)),
)
