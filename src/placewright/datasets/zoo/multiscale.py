"""Several resolutions at once: HRNet, stacked hourglasses."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce

import torch
from torch import Tensor, nn
from torch.nn import functional

from placewright.datasets.zoo.layers import Sum, convolution, preactivated
from placewright.datasets.zoo.objectives import entry, squared_error
from placewright.datasets.zoo.residual import basic, bottleneck
from placewright.datasets.zoo.segmentation import resized


class Exchange(nn.Module):
    """Four blocks at each resolution, then every resolution adds what all others bring to its size."""

    def __init__(self, widths: Sequence[int], blocks: int = 4) -> None:
        super().__init__()
        self.branches = nn.ModuleList(nn.Sequential(*(basic(w, w, 1) for _ in range(blocks))) for w in widths)
        self.paths = nn.ModuleList(
            nn.ModuleList(self._path(widths, source, target) for source in range(len(widths)))
            for target in range(len(widths))
        )

    @staticmethod
    def _path(widths: Sequence[int], source: int, target: int) -> nn.Module:
        if source == target:
            return nn.Identity()
        if source > target:
            up = nn.Upsample(scale_factor=2 ** (source - target), mode="nearest")
            return nn.Sequential(convolution(widths[source], widths[target], activation=None), up)
        width, steps = widths[source], target - source
        down = [convolution(width, width, 3, 2) for _ in range(steps - 1)]
        return nn.Sequential(*down, convolution(width, widths[target], 3, 2, activation=None))

    def forward(self, images: Sequence[Tensor]) -> list[Tensor]:  # [batch, widths[i], h / 2^i, w / 2^i] each
        images = [branch(image) for branch, image in zip(self.branches, images, strict=True)]
        brought = ([path(image) for path, image in zip(paths, images, strict=True)] for paths in self.paths)
        return [functional.relu(reduce(torch.add, parts)) for parts in brought]


class HighResolution(nn.Module):
    """Wang et al., Deep High-Resolution Representation Learning, 2019: HRNet-W18 for segmentation."""

    def __init__(self, width: int = 18, modules: Sequence[int] = (1, 4, 3), classes: int = 19) -> None:
        super().__init__()
        first = [bottleneck(64 if place == 0 else 256, 64, 1) for place in range(4)]
        self.stem = nn.Sequential(convolution(3, 64, 3, 2), convolution(64, 64, 3, 2), *first)
        widths = [width * 2**place for place in range(len(modules) + 1)]
        self.enter = convolution(256, width, 3)
        befores = [256, *widths[1:]]
        self.down = nn.ModuleList(convolution(a, b, 3, 2) for a, b in zip(befores, widths[1:], strict=False))
        self.stages = nn.ModuleList(
            nn.ModuleList(Exchange(widths[: place + 2]) for _ in range(count)) for place, count in enumerate(modules)
        )
        total = sum(widths)
        self.last = nn.Sequential(convolution(total, total), nn.Conv2d(total, classes, 1))

    def forward(self, image: Tensor) -> Tensor:  # [batch, 3, 512, 1024] -> [batch, 19, 128, 256]
        before = self.stem(image)  # [batch, 256, 128, 256]
        images = [self.enter(before)]
        for place, (down, stage) in enumerate(zip(self.down, self.stages, strict=True)):
            images = [*images, down(before if place == 0 else images[-1])]
            for exchange in stage:
                images = exchange(images)
        return self.last(torch.cat([resized(image, images[0]) for image in images], dim=1))


def _residual(inputs: int, outputs: int) -> Sum:
    half = outputs // 2
    body = nn.Sequential(preactivated(inputs, half), preactivated(half, half, 3), preactivated(half, outputs))
    return Sum(body, nn.Identity() if inputs == outputs else nn.Conv2d(inputs, outputs, 1))


class Hourglass(nn.Module):
    """Down, a smaller hourglass, up, plus a path that keeps the size."""

    def __init__(self, depth: int, width: int) -> None:
        super().__init__()
        self.keep = _residual(width, width)
        inner = Hourglass(depth - 1, width) if depth > 1 else _residual(width, width)
        self.through = nn.Sequential(nn.MaxPool2d(2), _residual(width, width), inner, _residual(width, width))

    def forward(self, image: Tensor) -> Tensor:  # [batch, width, height, width] -> the same
        return self.keep(image) + functional.interpolate(self.through(image), scale_factor=2.0)


class StackedHourglass(nn.Module):
    """Newell et al., Stacked Hourglass Networks for Human Pose Estimation, ECCV 2016: supervised after each."""

    def __init__(self, stacks: int, width: int = 256, joints: int = 16) -> None:
        super().__init__()
        first = convolution(3, 64, 7, 2), _residual(64, 128), nn.MaxPool2d(2), _residual(128, 128)
        self.stem = nn.Sequential(*first, _residual(128, width))
        self.bodies = nn.ModuleList(
            nn.Sequential(Hourglass(4, width), _residual(width, width), convolution(width, width))
            for _ in range(stacks)
        )
        self.heatmaps = nn.ModuleList(nn.Conv2d(width, joints, 1) for _ in range(stacks))
        self.features = nn.ModuleList(nn.Conv2d(width, width, 1) for _ in range(stacks - 1))
        self.back = nn.ModuleList(nn.Conv2d(joints, width, 1) for _ in range(stacks - 1))

    def forward(self, image: Tensor) -> Tensor:  # [batch, 3, 256, 256] -> [stacks, batch, joints, 64, 64]
        image, results = self.stem(image), []
        for place, (body, heatmap) in enumerate(zip(self.bodies, self.heatmaps, strict=True)):
            features = body(image)
            results.append(heatmap(features))
            if place < len(self.back):
                image = image + self.features[place](features) + self.back[place](results[-1])
        return torch.stack(results)


NETWORKS = (
    entry("hrnet_w18", "multiscale", HighResolution, (3, 3, 512, 1024)),
    entry("hourglass2", "multiscale", partial(StackedHourglass, 2), (6, 3, 256, 256), loss=squared_error),
    entry("hourglass8", "multiscale", partial(StackedHourglass, 8), (6, 3, 256, 256), loss=squared_error),
)
