"""A detector, boxes and classes for many anchors at several resolutions: YOLOv3."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn

from placewright.lab.datasets.zoo.layers import Sum, convolution

leaky = partial(convolution, activation=partial(nn.LeakyReLU, 0.1))


def listed(image: Tensor, values: int) -> Tensor:  # [batch, anchors * values, h, w] -> [batch, h * w * anchors, values]
    """One row for each anchor."""
    return image.permute(0, 2, 3, 1).reshape(image.shape[0], -1, values)


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
