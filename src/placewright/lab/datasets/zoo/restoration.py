"""Clean or larger images: DnCNN, VDSR, SRGAN, EDSR, RCAN, RDN (batch 16 of 48x48 unless said)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from placewright.lab.datasets.zoo.layers import SqueezeExcite, Sum, convolution, resized


def _same(inputs: int, outputs: int, kernel: int = 3) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, kernel, 1, kernel // 2)


def _twice(width: int, activation: nn.Module | None = None) -> nn.Sequential:
    """Doubles an image by moving channels into places."""
    return nn.Sequential(_same(width, 4 * width), nn.PixelShuffle(2), *([activation] if activation else []))


def _long(*body: nn.Module) -> Sum:
    """A body with a shortcut around all of it."""
    return Sum(nn.Sequential(*body), nn.Identity())


def dncnn() -> Sum:
    """Zhang et al., Beyond a Gaussian Denoiser, 2017: 17 layers that predict the noise; batch 128 of 40x40."""
    inner = (convolution(64, 64, 3) for _ in range(15))
    return _long(_same(1, 64), nn.ReLU(), *inner, _same(64, 1))


class VeryDeep(nn.Module):
    """Kim et al., Accurate Image Super-Resolution Using Very Deep Networks (VDSR), CVPR 2016; batch 64 of 41x41."""

    def __init__(self, depth: int = 20) -> None:
        super().__init__()
        inner = [layer for _ in range(depth - 2) for layer in (_same(64, 64), nn.ReLU())]
        self.body = nn.Sequential(_same(1, 64), nn.ReLU(), *inner, _same(64, 1))

    def forward(self, small: Tensor, like: Tensor) -> Tensor:  # [batch, 1, 20, 20], [batch, 1, 41, 41] -> the latter
        image = resized(small, like)
        return image + self.body(image)


def srgan_generator(blocks: int = 16) -> nn.Sequential:
    """Ledig et al., Photo-Realistic Super-Resolution (SRGAN), CVPR 2017, figure 4; batch 16 of 24x24."""

    def block() -> Sum:
        return _long(convolution(64, 64, 3, activation=nn.PReLU), convolution(64, 64, 3, activation=None))

    body = _long(*(block() for _ in range(blocks)), convolution(64, 64, 3, activation=None))
    return nn.Sequential(
        *(_same(3, 64, 9), nn.PReLU(), body, _twice(64, nn.PReLU()), _twice(64, nn.PReLU()), _same(64, 3, 9))
    )


class Scaled(nn.Sequential):
    """A chain whose result is multiplied by 0.1."""

    def forward(self, image: Tensor) -> Tensor:  # [batch, channels, height, width] -> the same
        return super().forward(image) * 0.1


def edsr(blocks: int = 32, width: int = 256) -> nn.Sequential:
    """Lim et al., Enhanced Deep Residual Networks for Super-Resolution, 2017, figure 3, twice as large."""

    def block() -> Sum:
        return Sum(Scaled(_same(width, width), nn.ReLU(), _same(width, width)), nn.Identity())

    body = _long(*(block() for _ in range(blocks)), _same(width, width))
    return nn.Sequential(_same(3, width), body, _twice(width), _same(width, 3))


def rcan(groups: int = 10, blocks: int = 20) -> nn.Sequential:
    """Zhang et al., Residual Channel Attention Networks, ECCV 2018, figure 2: nested residuals, twice as large."""

    def block() -> Sum:
        return _long(_same(64, 64), nn.ReLU(), _same(64, 64), SqueezeExcite(64, 4))

    body = (_long(*(block() for _ in range(blocks)), _same(64, 64)) for _ in range(groups))
    return nn.Sequential(_same(3, 64), _long(*body, _same(64, 64)), _twice(64), _same(64, 3))


class ResidualDense(nn.Module):
    """Convolutions that read all before them, projected and added to the input."""

    def __init__(self, layers: int, width: int = 64) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Sequential(_same((n + 1) * width, width), nn.ReLU()) for n in range(layers))
        self.project = nn.Conv2d((layers + 1) * width, width, 1)

    def forward(self, image: Tensor) -> Tensor:  # [batch, width, height, width] -> the same
        features = [image]
        for layer in self.layers:
            features.append(layer(torch.cat(features, dim=1)))
        return image + self.project(torch.cat(features, dim=1))


class ResidualDenseNetwork(nn.Module):
    """Zhang et al., Residual Dense Network for Image Super-Resolution, CVPR 2018, figure 2, twice as large."""

    def __init__(self, blocks: int = 16, layers: int = 8, width: int = 64) -> None:
        super().__init__()
        self.enter = nn.ModuleList([_same(3, width), _same(width, width)])
        self.blocks = nn.ModuleList(ResidualDense(layers, width) for _ in range(blocks))
        self.fuse = nn.Sequential(nn.Conv2d(blocks * width, width, 1), _same(width, width))
        self.leave = nn.Sequential(_twice(width), _same(width, 3))

    def forward(self, image: Tensor) -> Tensor:  # [batch, 3, height, width] -> [batch, 3, 2 height, 2 width]
        first = self.enter[0](image)
        image = self.enter[1](first)
        results = [image := block(image) for block in self.blocks]
        return self.leave(self.fuse(torch.cat(results, dim=1)) + first)
