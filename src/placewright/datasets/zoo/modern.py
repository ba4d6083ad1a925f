"""Patches instead of pyramids of 3x3: ConvNeXt, MLP-Mixer, ConvMixer (224x224, one replica's batch)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor, nn

from placewright.datasets.zoo.layers import Sum, head
from placewright.datasets.zoo.objectives import entry


class ChannelNorm(nn.LayerNorm):
    """Layer normalisation over the channels of an image."""

    def forward(self, image: Tensor) -> Tensor:  # [batch, channels, height, width] -> the same
        return super().forward(image.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class NextBlock(nn.Module):
    """A 7x7 filter per channel, then two linear layers at every place, scaled and added."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.filters = nn.Conv2d(width, width, 7, 1, 3, groups=width)
        layers = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        self.body = nn.Sequential(*layers)
        self.scale = nn.Parameter(torch.zeros(width))

    def forward(self, image: Tensor) -> Tensor:  # [batch, width, height, width] -> the same
        features = self.body(self.filters(image).permute(0, 2, 3, 1)) * self.scale
        return image + features.permute(0, 3, 1, 2)


def convnext(depths: Sequence[int], widths: Sequence[int] = (96, 192, 384, 768)) -> nn.Sequential:
    """Liu et al., A ConvNet for the 2020s, CVPR 2022, figure 4 and table 9."""
    layers: list[nn.Module] = [nn.Conv2d(3, widths[0], 4, 4), ChannelNorm(widths[0])]
    for place, (depth, width) in enumerate(zip(depths, widths, strict=True)):
        if place:
            layers += [ChannelNorm(widths[place - 1]), nn.Conv2d(widths[place - 1], width, 2, 2)]
        layers += [NextBlock(width) for _ in range(depth)]
    last = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LayerNorm(widths[-1]), nn.Linear(widths[-1], 1000)
    return nn.Sequential(*layers, *last)


class MixerBlock(nn.Module):
    """One perceptron over the patches, one over the channels."""

    def __init__(self, patches: int, width: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.patches, self.channels = self._perceptron(patches, width // 2), self._perceptron(width, 4 * width)

    @staticmethod
    def _perceptron(width: int, hidden: int) -> nn.Sequential:
        return nn.Sequential(nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, width))

    def forward(self, tokens: Tensor) -> Tensor:  # [batch, patches, width] -> the same
        tokens = tokens + self.patches(self.norms[0](tokens).transpose(1, 2)).transpose(1, 2)
        return tokens + self.channels(self.norms[1](tokens))


class Mixer(nn.Module):
    """Tolstikhin et al., MLP-Mixer, NeurIPS 2021, figure 1: patches of 16x16."""

    def __init__(self, layers: int, width: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 16, 16)
        self.blocks = nn.Sequential(*(MixerBlock(196, width) for _ in range(layers)), nn.LayerNorm(width))
        self.classifier = nn.Linear(width, 1000)

    def forward(self, image: Tensor) -> Tensor:  # [batch, 3, 224, 224] -> [batch, 1000]
        tokens = self.patches(image).flatten(2).transpose(1, 2)  # [batch, 196, width]
        return self.classifier(self.blocks(tokens).mean(1))


def convmixer(width: int = 768, depth: int = 32) -> nn.Sequential:
    """Trockman & Kolter, Patches Are All You Need?, 2022, figure 2: ConvMixer-768/32."""

    def layer(kernel: int, groups: int) -> nn.Sequential:
        made = nn.Conv2d(width, width, kernel, 1, kernel // 2, groups=groups)
        return nn.Sequential(made, nn.ReLU(), nn.BatchNorm2d(width))

    blocks = (part for _ in range(depth) for part in (Sum(layer(7, width), nn.Identity()), layer(1, 1)))
    return nn.Sequential(nn.Conv2d(3, width, 7, 7), nn.ReLU(), nn.BatchNorm2d(width), *blocks, head(width))


NETWORKS = (
    entry("convnext_tiny", "modern", partial(convnext, (3, 3, 9, 3)), (64, 3, 224, 224)),
    entry("convnext_small", "modern", partial(convnext, (3, 3, 27, 3)), (64, 3, 224, 224)),
    entry("mixer_s16", "modern", partial(Mixer, 8, 512), (64, 3, 224, 224)),
    entry("mixer_b16", "modern", partial(Mixer, 12, 768), (64, 3, 224, 224)),
    entry("convmixer_768_32", "modern", convmixer, (64, 3, 224, 224)),
)
