"""Layers that read all before them: DenseNet, VoVNet, dual path networks."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from placewright.datasets.zoo.layers import SqueezeExcite, convolution, head, preactivated
from placewright.datasets.zoo.objectives import entry


class DenseBlock(nn.Module):
    """Bottlenecked layers, each of which reads the channels of all before it, joined anew every time."""

    def __init__(self, inputs: int, layers: int, growth: int) -> None:
        super().__init__()
        widths = [inputs + place * growth for place in range(layers)]
        self.layers = nn.ModuleList(
            nn.Sequential(preactivated(width, 4 * growth), preactivated(4 * growth, growth, 3)) for width in widths
        )

    def forward(self, image: Tensor) -> Tensor:  # [batch, inputs, h, w] -> [batch, inputs + layers * growth, h, w]
        features = [image]
        for layer in self.layers:
            features.append(layer(torch.cat(features, dim=1)))
        return torch.cat(features, dim=1)


def densenet(*depths: int, growth: int = 32) -> nn.Sequential:
    """Huang et al., Densely Connected Convolutional Networks, CVPR 2017, table 1 (batch 256)."""
    channels = 2 * growth
    layers: list[nn.Module] = [convolution(3, channels, 7, 2), nn.MaxPool2d(3, 2, 1)]
    for place, depth in enumerate(depths):
        if place:
            layers += [preactivated(channels, channels // 2), nn.AvgPool2d(2)]
            channels //= 2
        layers.append(DenseBlock(channels, depth, growth))
        channels += depth * growth
    return nn.Sequential(*layers, nn.BatchNorm2d(channels), nn.ReLU(), head(channels))


class OneShot(nn.Module):
    """A chain of convolutions whose results are joined once, then gated and added to the input where they fit."""

    def __init__(self, inputs: int, width: int, outputs: int, layers: int) -> None:
        super().__init__()
        widths = [inputs] + [width] * (layers - 1)
        self.layers = nn.ModuleList(convolution(before, width, 3) for before in widths)
        self.project = convolution(inputs + layers * width, outputs)
        self.gate = SqueezeExcite(outputs, outputs // 16)
        self.residual = inputs == outputs

    def forward(self, image: Tensor) -> Tensor:  # [batch, inputs, h, w] -> [batch, outputs, h, w]
        features = [image]
        for layer in self.layers:
            features.append(layer(features[-1]))
        output = self.gate(self.project(torch.cat(features, dim=1)))
        return output + image if self.residual else output


def vovnet(*depths: int) -> nn.Sequential:
    """Lee & Park, CenterMask, CVPR 2020, section 3.3: VoVNetV2 (batch 256)."""
    layers: list[nn.Module] = [convolution(3, 64, 3, 2), convolution(64, 64, 3), convolution(64, 128, 3, 2)]
    inputs = 128
    for depth, width, outputs in zip(depths, (128, 160, 192, 224), (256, 512, 768, 1024), strict=True):
        layers += [nn.MaxPool2d(3, 2, 1)] if inputs != 128 else []
        for _ in range(depth):
            layers.append(OneShot(inputs, width, outputs, 5))
            inputs = outputs
    return nn.Sequential(*layers, head(inputs))


class DualPath(nn.Module):
    """A residual path and a dense path through one grouped bottleneck; the state is both, as a pair."""

    def __init__(
        self, shape: tuple[int, int], width: int, residual: int, growth: int, stride: int, *, first: bool
    ) -> None:
        super().__init__()
        inputs = sum(shape)
        self.residual = residual
        self.split = preactivated(inputs, residual + 2 * growth, 1, stride) if first else None
        self.body = nn.Sequential(
            preactivated(inputs, width),
            *(nn.BatchNorm2d(width), nn.ReLU(), nn.Conv2d(width, width, 3, stride, 1, groups=32, bias=False)),
            preactivated(width, residual + growth),
        )

    def forward(self, state: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:  # two of [batch, channels, h, w]
        joined = torch.cat(state, dim=1)
        old = state if self.split is None else self._parts(self.split(joined))
        new = self._parts(self.body(joined))
        return old[0] + new[0], torch.cat([old[1], new[1]], dim=1)

    def _parts(self, image: Tensor) -> tuple[Tensor, Tensor]:  # [batch, residual + dense, h, w] -> its two parts
        return image[:, : self.residual], image[:, self.residual :]


class DualPathNetwork(nn.Module):
    """Chen et al., Dual Path Networks, NIPS 2017, table 1: DPN-92 (batch 32 on each of 40 devices)."""

    def __init__(self, depths: Sequence[int] = (3, 4, 20, 3), growths: Sequence[int] = (16, 32, 24, 128)) -> None:
        super().__init__()
        self.stem = nn.Sequential(convolution(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1))
        shape, blocks = (64, 0), []
        for place, (depth, growth) in enumerate(zip(depths, growths, strict=True)):
            residual, width = 256 * 2**place, 96 * 2**place
            for index in range(depth):
                stride = 2 if place and not index else 1
                blocks.append(DualPath(shape, width, residual, growth, stride, first=not index))
                shape = (residual, 3 * growth if not index else shape[1] + growth)
        self.blocks = nn.ModuleList(blocks)
        self.end = nn.Sequential(nn.BatchNorm2d(sum(shape)), nn.ReLU(), head(sum(shape)))

    def forward(self, image: Tensor) -> Tensor:  # [batch, 3, 224, 224] -> [batch, 1000]
        stem = self.stem(image)  # [batch, 64, 56, 56]
        state = stem, stem[:, :0]
        for block in self.blocks:
            state = block(state)
        return self.end(torch.cat(state, dim=1))


NETWORKS = (
    entry("densenet121", "dense", lambda: densenet(6, 12, 24, 16), (256, 3, 224, 224)),
    entry("densenet169", "dense", lambda: densenet(6, 12, 32, 32), (256, 3, 224, 224)),
    entry("densenet201", "dense", lambda: densenet(6, 12, 48, 32), (256, 3, 224, 224)),
    entry("vovnet39", "dense", lambda: vovnet(1, 1, 2, 2), (256, 3, 224, 224)),
    entry("dpn92", "dense", DualPathNetwork, (32, 3, 224, 224)),
)
