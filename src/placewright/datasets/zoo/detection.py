"""Detectors: boxes and classes for many anchors at several resolutions: SSD, YOLOv3, RetinaNet."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional

from placewright.datasets.zoo.layers import Sum, convolution
from placewright.datasets.zoo.objectives import cross_entropy, entry, squared_error
from placewright.datasets.zoo.residual import bottleneck, stages, stem

leaky = partial(convolution, activation=partial(nn.LeakyReLU, 0.1))


def boxes(outputs: Sequence[Tensor]) -> Tensor:  # [batch, places, anchors' values] each -> []
    """A stand-in for the matching losses of detectors: classes by cross entropy, the four numbers of a box squared."""
    joined = torch.cat(list(outputs), dim=1)  # [batch, anchors, 4 + classes]
    return squared_error(joined[..., :4]) + cross_entropy(joined[..., 4:].flatten(0, 1))


def listed(image: Tensor, values: int) -> Tensor:  # [batch, anchors * values, h, w] -> [batch, h * w * anchors, values]
    """One row for each anchor."""
    return image.permute(0, 2, 3, 1).reshape(image.shape[0], -1, values)


class Ssd(nn.Module):
    """Liu et al., SSD: Single Shot MultiBox Detector, ECCV 2016, figure 2: SSD300 over VGG-16, batch 32."""

    def __init__(self, classes: int = 21) -> None:
        super().__init__()
        self.values = 4 + classes
        counts, widths = (2, 2, 3, 3), (64, 128, 256, 512)
        layers: list[nn.Module] = []
        for before, count, width in zip((3, *widths), counts, widths, strict=False):
            layers += [nn.MaxPool2d(2, ceil_mode=True)] if before > 3 else []
            layers += [self._plain(width if place else before, width, 3, padding=1) for place in range(count)]
        deep = [nn.MaxPool2d(2), *(self._plain(512, 512, 3, padding=1) for _ in range(3)), nn.MaxPool2d(3, 1, 1)]
        sixth = nn.Sequential(nn.Conv2d(512, 1024, 3, 1, 6, 6), nn.ReLU(), self._plain(1024, 1024, 1))
        self.stages = nn.ModuleList([nn.Sequential(*layers), nn.Sequential(*deep, sixth)])
        reductions = (1024, 512, 2, 1), (512, 256, 2, 1), (256, 256, 1, 0), (256, 256, 1, 0)
        for inputs, outputs, stride, padding in reductions:
            pair = self._plain(inputs, outputs // 2, 1), self._plain(outputs // 2, outputs, 3, stride, padding)
            self.stages.append(nn.Sequential(*pair))
        anchors = zip((512, 1024, 512, 256, 256, 256), (4, 6, 6, 6, 4, 4), strict=True)
        self.heads = nn.ModuleList(nn.Conv2d(width, count * self.values, 3, 1, 1) for width, count in anchors)

    @staticmethod
    def _plain(inputs: int, outputs: int, kernel: int, stride: int = 1, padding: int = 0) -> nn.Sequential:
        return nn.Sequential(nn.Conv2d(inputs, outputs, kernel, stride, padding), nn.ReLU())

    def forward(self, image: Tensor) -> list[Tensor]:  # [batch, 3, 300, 300] -> six of [batch, anchors, 25]
        results = []
        for place, (stage, detect) in enumerate(zip(self.stages, self.heads, strict=True)):
            image = stage(image)
            scaled = functional.normalize(image, dim=1) if place == 0 else image
            results.append(listed(detect(scaled), self.values))
        return results


class YoloV3(nn.Module):
    """Redmon & Farhadi, YOLOv3, 2018: Darknet-53 and three scales, batch 64 of 416x416."""

    def __init__(self, classes: int = 80) -> None:
        super().__init__()
        self.values = 5 + classes
        self.stem = leaky(3, 32, 3)
        self.stages = nn.ModuleList()
        for width, depth in ((64, 1), (128, 2), (256, 8), (512, 8), (1024, 4)):
            blocks = (
                Sum(nn.Identity(), nn.Sequential(leaky(width, width // 2), leaky(width // 2, width, 3)))
                for _ in range(depth)
            )
            self.stages.append(nn.Sequential(leaky(width // 2, width, 3, 2), *blocks))
        self.necks = nn.ModuleList(self._five(inputs, width) for inputs, width in ((1024, 512), (768, 256), (384, 128)))
        self.up = nn.ModuleList(
            nn.Sequential(leaky(width, width // 2), nn.Upsample(scale_factor=2.0)) for width in (512, 256)
        )
        self.heads = nn.ModuleList(
            nn.Sequential(leaky(width, 2 * width, 3), nn.Conv2d(2 * width, 3 * self.values, 1))
            for width in (512, 256, 128)
        )

    @staticmethod
    def _five(inputs: int, width: int) -> nn.Sequential:
        pairs = leaky(inputs, width), leaky(width, 2 * width, 3), leaky(2 * width, width), leaky(width, 2 * width, 3)
        return nn.Sequential(*pairs, leaky(2 * width, width))

    def forward(self, image: Tensor) -> list[Tensor]:  # [batch, 3, 416, 416] -> three of [batch, anchors, 85]
        image, kept, results = self.stem(image), [], []
        for stage in self.stages:
            image = stage(image)
            kept.append(image)
        image = kept.pop()
        for place, (neck, detect) in enumerate(zip(self.necks, self.heads, strict=True)):
            image = neck(image)
            results.append(listed(detect(image), self.values))
            if place < len(self.up):
                image = torch.cat([self.up[place](image), kept.pop()], dim=1)
        return results


class RetinaNet(nn.Module):
    """Lin et al., Focal Loss for Dense Object Detection, ICCV 2017: a feature pyramid over ResNet-50, two heads."""

    def __init__(self, classes: int = 80, anchors: int = 9, width: int = 256) -> None:
        super().__init__()
        self.values = 4, classes
        self.stem = stem()
        self.stages = nn.ModuleList(stages(bottleneck, (3, 4, 6, 3), expansion=4))
        self.lateral = nn.ModuleList(nn.Conv2d(inputs, width, 1) for inputs in (512, 1024, 2048))
        self.smooth = nn.ModuleList(nn.Conv2d(width, width, 3, 1, 1) for _ in range(3))
        self.more = nn.ModuleList([nn.Conv2d(2048, width, 3, 2, 1), nn.Conv2d(width, width, 3, 2, 1)])
        self.heads = nn.ModuleList(self._head(width, anchors * values) for values in self.values)

    @staticmethod
    def _head(width: int, outputs: int) -> nn.Sequential:
        layers = [layer for _ in range(4) for layer in (nn.Conv2d(width, width, 3, 1, 1), nn.ReLU())]
        return nn.Sequential(*layers, nn.Conv2d(width, outputs, 3, 1, 1))

    def forward(self, image: Tensor) -> list[Tensor]:  # [batch, 3, 608, 608] -> five of [batch, anchors, 84]
        image, kept = self.stem(image), []
        for stage in self.stages:
            image = stage(image)
            kept.append(image)
        sixth = self.more[0](kept[-1])
        levels = [self.lateral[2](kept[3])]
        for place in (1, 0):
            above = functional.interpolate(levels[0], size=kept[place + 1].shape[-2:])
            levels.insert(0, self.lateral[place](kept[place + 1]) + above)
        levels = [smooth(level) for smooth, level in zip(self.smooth, levels, strict=True)]
        levels += [sixth, self.more[1](sixth.relu())]
        return [self._detect(level) for level in levels]

    def _detect(self, level: Tensor) -> Tensor:  # [batch, width, h, w] -> [batch, h * w * anchors, 4 + classes]
        parts = [listed(head(level), values) for head, values in zip(self.heads, self.values, strict=True)]
        return torch.cat(parts, dim=2)


NETWORKS = (
    entry("ssd300", "detection", Ssd, (32, 3, 300, 300), loss=boxes),
    entry("yolo_v3", "detection", YoloV3, (64, 3, 416, 416), loss=boxes),
    entry("retinanet50", "detection", RetinaNet, (2, 3, 608, 608), loss=boxes),
)
