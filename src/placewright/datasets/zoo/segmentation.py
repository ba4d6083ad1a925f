"""Every pixel gets a class: U-Net, SegNet, FCN-8s, PSPNet, DeepLabv3."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from placewright.datasets.zoo.layers import Parallel, Sum, convolution
from placewright.datasets.zoo.objectives import entry
from placewright.datasets.zoo.residual import stem


def resized(image: Tensor, like: Tensor) -> Tensor:  # [batch, channels, h, w], [..., H, W] -> [batch, channels, H, W]
    """Bilinear."""
    return functional.interpolate(image, size=like.shape[-2:], mode="bilinear", align_corners=False)


class UNet(nn.Module):
    """Ronneberger et al., U-Net, MICCAI 2015, figure 1: 572x572 with valid convolutions, one image per step."""

    def __init__(self, width: int = 64, depth: int = 4) -> None:
        super().__init__()
        widths = [width * 2**place for place in range(depth + 1)]
        self.down = nn.ModuleList(self._pair(before, after) for before, after in pairwise([1, *widths]))
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * after, after, 2, 2) for after in widths[-2::-1])
        self.merge = nn.ModuleList(self._pair(2 * after, after) for after in widths[-2::-1])
        self.last = nn.Conv2d(width, 2, 1)

    @staticmethod
    def _pair(inputs: int, outputs: int) -> nn.Sequential:
        return nn.Sequential(nn.Conv2d(inputs, outputs, 3), nn.ReLU(), nn.Conv2d(outputs, outputs, 3), nn.ReLU())

    def forward(self, image: Tensor) -> Tensor:  # [batch, 1, 572, 572] -> [batch, 2, 388, 388]
        kept = [self.down[0](image)]
        for down in self.down[1:]:
            kept.append(down(functional.max_pool2d(kept[-1], 2)))
        image = kept.pop()
        for up, merge in zip(self.up, self.merge, strict=True):
            image, skipped = up(image), kept.pop()
            border = (skipped.shape[-1] - image.shape[-1]) // 2
            image = merge(torch.cat([functional.pad(skipped, [-border] * 4), image], dim=1))
        return self.last(image)


def _vgg(counts: Sequence[int], widths: Sequence[int], inputs: int) -> Iterator[nn.Sequential]:
    """Stages of 3x3 convolutions with normalisation."""
    for count, width in zip(counts, widths, strict=True):
        yield nn.Sequential(*(convolution(width if place else inputs, width, 3) for place in range(count)))
        inputs = width


class SegNet(nn.Module):
    """Badrinarayanan et al., SegNet, 2017: maxima remember where they stood. Batch 12 of 360x480."""

    def __init__(self, classes: int = 11) -> None:
        super().__init__()
        self.encoder = nn.ModuleList(_vgg((2, 2, 3, 3, 3), (64, 128, 256, 512, 512), 3))
        outputs = ((512, 512, 512), (512, 512, 256), (256, 256, 128), (128, 64), (64,))
        inputs = (512, 512, 256, 128, 64)
        self.decoder = nn.ModuleList(
            nn.Sequential(*(convolution(a, b, 3) for a, b in zip((first, *widths), widths, strict=False)))
            for first, widths in zip(inputs, outputs, strict=True)
        )
        self.last = nn.Conv2d(64, classes, 3, 1, 1)

    def forward(self, image: Tensor) -> Tensor:  # [batch, 3, 360, 480] -> [batch, 11, 360, 480]
        kept = []
        for stage in self.encoder:
            before = stage(image)
            image, places = functional.max_pool2d(before, 2, return_indices=True)
            kept.append((places, before.shape))
        for stage in self.decoder:
            places, shape = kept.pop()
            image = stage(functional.max_unpool2d(image, places, 2, output_size=shape))
        return self.last(image)


class Fcn8(nn.Module):
    """Long et al., Fully Convolutional Networks for Semantic Segmentation, CVPR 2015: FCN-8s over VGG-16, batch 20."""

    def __init__(self, classes: int = 21) -> None:
        super().__init__()
        stages = list(_vgg((2, 2, 3, 3, 3), (64, 128, 256, 512, 512), 3))
        self.to_8 = nn.Sequential(*(layer for stage in stages[:3] for layer in (stage, nn.MaxPool2d(2))))
        self.to_16 = nn.Sequential(stages[3], nn.MaxPool2d(2))
        self.to_32 = nn.Sequential(stages[4], nn.MaxPool2d(2))
        dense = (
            nn.Conv2d(512, 4096, 7, 1, 3),
            nn.ReLU(),
            nn.Dropout(),
            nn.Conv2d(4096, 4096, 1),
            nn.ReLU(),
            nn.Dropout(),
        )
        self.dense = nn.Sequential(*dense)
        self.scores = nn.ModuleList(nn.Conv2d(width, classes, 1) for width in (256, 512, 4096))
        self.up = nn.ModuleList(
            nn.ConvTranspose2d(classes, classes, 2 * stride, stride, stride // 2, bias=False) for stride in (2, 2, 8)
        )

    def forward(self, image: Tensor) -> Tensor:  # [batch, 3, 512, 512] -> [batch, 21, 512, 512]
        at_8 = self.to_8(image)  # [batch, 256, 64, 64]
        at_16 = self.to_16(at_8)  # [batch, 512, 32, 32]
        score = self.scores[2](self.dense(self.to_32(at_16)))  # [batch, 21, 16, 16]
        score = self.up[0](score) + self.scores[1](at_16)
        return self.up[2](self.up[1](score) + self.scores[0](at_8))


def dilated_bottleneck(inputs: int, width: int, stride: int, dilation: int) -> nn.Sequential:
    """The bottleneck of ResNet with holes in its 3x3 convolution."""
    outputs = 4 * width
    body = nn.Sequential(
        *(convolution(inputs, width), convolution(width, width, 3, stride, dilation=dilation)),
        convolution(width, outputs, activation=None),
    )
    fits = inputs == outputs and stride == 1
    shortcut = nn.Identity() if fits else convolution(inputs, outputs, 1, stride, activation=None)
    return nn.Sequential(Sum(body, shortcut), nn.ReLU())


def dilated_resnet(*depths: int) -> nn.Sequential:
    """ResNet whose last two stages keep the size and dilate: an eighth of the image, 2,048 channels."""
    layers, inputs = [*stem()], 64
    for place, (depth, stride, dilation) in enumerate(zip(depths, (1, 2, 1, 1), (1, 1, 2, 4), strict=True)):
        for index in range(depth):
            layers.append(dilated_bottleneck(inputs, 64 * 2**place, 1 if index else stride, dilation))
            inputs = 256 * 2**place
    return nn.Sequential(*layers)


class Pooled(nn.Module):
    """Averages to a grid, projects, and resizes back."""

    def __init__(self, inputs: int, outputs: int, grid: int) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.AdaptiveAvgPool2d(grid), convolution(inputs, outputs))

    def forward(self, image: Tensor) -> Tensor:  # [batch, inputs, height, width] -> [batch, outputs, height, width]
        return resized(self.body(image), image)


class Segmenter(nn.Module):
    """A backbone and a head, resized to the image."""

    def __init__(self, backbone: nn.Module, context: nn.Module) -> None:
        super().__init__()
        self.backbone = backbone
        self.context = context

    def forward(self, image: Tensor) -> Tensor:  # [batch, 3, height, width] -> [batch, classes, height, width]
        return resized(self.context(self.backbone(image)), image)


def pspnet() -> Segmenter:
    """Zhao et al., Pyramid Scene Parsing Network, CVPR 2017, figure 3; batch 16 of 473x473."""
    pyramid = Parallel([nn.Identity(), *(Pooled(2048, 512, grid) for grid in (1, 2, 3, 6))])
    last = convolution(4096, 512, 3), nn.Dropout(0.1), nn.Conv2d(512, 150, 1)
    return Segmenter(dilated_resnet(3, 4, 6, 3), nn.Sequential(pyramid, *last))


def deeplab() -> Segmenter:
    """Chen et al., Rethinking Atrous Convolution (DeepLabv3), 2017, figure 5, over ResNet-101; batch 16 of 513x513."""
    holes = (convolution(2048, 256, 3, dilation=dilation) for dilation in (12, 24, 36))
    branches = Parallel([convolution(2048, 256), *holes, Pooled(2048, 256, 1)])
    last = convolution(1280, 256), nn.Dropout(0.5), convolution(256, 256, 3), nn.Conv2d(256, 21, 1)
    return Segmenter(dilated_resnet(3, 4, 23, 3), nn.Sequential(branches, *last))


NETWORKS = (
    entry("unet", "segmentation", UNet, (1, 1, 572, 572)),
    entry("segnet", "segmentation", SegNet, (12, 3, 360, 480)),
    entry("fcn8s", "segmentation", Fcn8, (20, 3, 512, 512)),
    entry("pspnet50", "segmentation", pspnet, (16, 3, 473, 473)),
    entry("deeplab_v3", "segmentation", deeplab, (16, 3, 513, 513)),
)
