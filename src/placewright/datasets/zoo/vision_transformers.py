"""Transformers over images and over more than one kind of input, written out."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from placewright.datasets.zoo.attention import Attention, Block, Embedded, feed_forward
from placewright.datasets.zoo.network import Network
from placewright.datasets.zoo.objectives import Loss, Supervised, cross_entropy, entry, squared_error
from placewright.datasets.zoo.sequences import tokens


class Patches(nn.Module):
    """Squares of an image as a sequence: [batch, 3, height, width] -> [batch, squares, width]."""

    def __init__(self, side: int, width: int) -> None:
        super().__init__()
        self.project = nn.Conv2d(3, width, side, side)

    def forward(self, image: Tensor) -> Tensor:
        return self.project(image).flatten(2).transpose(1, 2)


def encoder(width: int, heads: int, layers: int) -> nn.Sequential:
    """Blocks of attention and a feed-forward part four times as wide."""
    return nn.Sequential(
        *(Block(width, Attention(width, heads), feed_forward(width, 4 * width)) for _ in range(layers))
    )


class VisionTransformer(nn.Module):
    """Dosovitskiy et al., An Image is Worth 16x16 Words, 2021; with two first tokens, each with a classifier, Touvron
    et al., Training data-efficient image transformers (DeiT), 2021."""

    def __init__(self, width: int, heads: int, layers: int, *, first: int = 1) -> None:
        super().__init__()
        self.patches, self.blocks = Patches(16, width), encoder(width, heads, layers)
        self.first = nn.Parameter(torch.empty(1, first, width))
        self.positions = nn.Parameter(torch.empty(1, 196 + first, width))
        self.norm, self.outputs = nn.LayerNorm(width), nn.ModuleList(nn.Linear(width, 1000) for _ in range(first))

    def forward(self, image: Tensor) -> Tensor:  # [batch, 3, 224, 224] -> [batch, 1000]
        patches = self.patches(image)
        sequence = torch.cat([self.first.expand(len(patches), -1, -1), patches], 1) + self.positions
        firsts = self.norm(self.blocks(sequence))[:, : len(self.outputs)].unbind(1)
        results = [output(first) for output, first in zip(self.outputs, firsts, strict=True)]
        return sum(results[1:], results[0]) / len(results)


class WindowAttention(Attention):
    """Attention within windows of 7 x 7, shifted by half of one in every second block; a bias for every offset."""

    def __init__(self, width: int, heads: int, side: int, *, shifted: bool) -> None:
        super().__init__(width, heads)
        self.side, self.shift = side, 3 if shifted and side > 7 else 0
        self.bias = nn.Parameter(torch.empty(169, heads))
        self.register_buffer("offset", torch.zeros(49 * 49, dtype=torch.int64))
        windows = (side // 7) ** 2
        self.register_buffer("apart", torch.zeros(windows, 1, 49, 49))  # minus infinity across the shift's seam

    def forward(self, sequence: Tensor, memory: Tensor | None = None) -> Tensor:  # [batch, side * side, width]
        image = sequence.unflatten(1, (self.side, self.side))
        if self.shift:
            image = image.roll((-self.shift, -self.shift), (1, 2))
        count = self.side // 7
        windows = image.unflatten(2, (count, 7)).unflatten(1, (count, 7)).transpose(2, 3)  # [batch, n, n, 7, 7, width]
        found = super().forward(windows.flatten(3, 4).flatten(0, 2))  # [batch * windows, 49, width]
        image = found.unflatten(1, (7, 7)).unflatten(0, (-1, count, count)).transpose(2, 3).flatten(3, 4).flatten(1, 2)
        if self.shift:
            image = image.roll((self.shift, self.shift), (1, 2))
        return image.flatten(1, 2)

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:  # [batch * windows, heads, 49, size] each
        scores = query @ key.transpose(2, 3) * self.size**-0.5
        scores = scores + self.bias[self.offset].unflatten(0, (49, 49)).permute(2, 0, 1)
        if self.shift:
            scores = (scores.unflatten(0, (-1, len(self.apart))) + self.apart).flatten(0, 1)
        return torch.softmax(scores, 3) @ value


class Merge(nn.Module):
    """Joins 2 x 2 neighbours and doubles the width."""

    def __init__(self, width: int, side: int) -> None:
        super().__init__()
        self.side, self.norm, self.reduce = side, nn.LayerNorm(4 * width), nn.Linear(4 * width, 2 * width, bias=False)

    def forward(self, sequence: Tensor) -> Tensor:  # [batch, side * side, width] -> [batch, side * side / 4, 2 width]
        image = sequence.unflatten(1, (self.side, self.side))
        corners = [image[:, row::2, column::2] for column in (0, 1) for row in (0, 1)]
        return self.reduce(self.norm(torch.cat(corners, 3))).flatten(1, 2)


class Swin(nn.Module):
    """Liu et al., Swin Transformer, 2021."""

    def __init__(self, depths: tuple[int, ...] = (2, 2, 6, 2), width: int = 96) -> None:
        super().__init__()
        stages: list[nn.Module] = [Patches(4, width), nn.LayerNorm(width)]
        side = 56
        for stage, depth in enumerate(depths):
            if stage > 0:
                stages.append(Merge(width, side))
                side, width = side // 2, 2 * width
            for block in range(depth):
                attention = WindowAttention(width, width // 32, side, shifted=block % 2 == 1)
                stages.append(Block(width, attention, feed_forward(width, 4 * width)))
        self.stages = nn.Sequential(*stages, nn.LayerNorm(width))
        self.output = nn.Linear(width, 1000)

    def forward(self, image: Tensor) -> Tensor:  # [batch, 3, 224, 224] -> [batch, 1000]
        return self.output(self.stages(image).mean(1))


class ReducedAttention(Attention):
    """Keys and values from an image made smaller (Wang et al., Pyramid Vision Transformer, 2021, section 3.3)."""

    def __init__(self, width: int, heads: int, side: int, ratio: int) -> None:
        super().__init__(width, heads)
        self.side, self.reduce, self.norm = side, nn.Conv2d(width, width, ratio, ratio), nn.LayerNorm(width)

    def forward(self, sequence: Tensor, memory: Tensor | None = None) -> Tensor:  # [batch, side * side, width]
        image = sequence.transpose(1, 2).unflatten(2, (self.side, self.side))
        return super().forward(sequence, self.norm(self.reduce(image).flatten(2).transpose(1, 2)))


def pyramid() -> nn.Module:
    """PVT-Tiny: four stages, each from 2 x 2 neighbours of the one before."""
    stages: list[nn.Module] = [Patches(4, 64)]
    before = 64
    for side, width, heads, ratio in ((56, 64, 1, 8), (28, 128, 2, 4), (14, 320, 5, 2), (7, 512, 8, 1)):
        if width != before:
            stages.append(Halve(before, width, 2 * side))
        before = width
        for _ in range(2):
            stages.append(Block(width, ReducedAttention(width, heads, side, ratio), feed_forward(width, 4 * width)))
    return nn.Sequential(*stages, nn.LayerNorm(512), Average(), nn.Linear(512, 1000))


class Halve(nn.Module):
    """A convolution over 2 x 2 neighbours: [batch, side * side, inputs] -> [batch, a quarter of them, outputs]."""

    def __init__(self, inputs: int, outputs: int, side: int) -> None:
        super().__init__()
        self.reduce, self.side = nn.Conv2d(inputs, outputs, 2, 2), side

    def forward(self, sequence: Tensor) -> Tensor:
        image = sequence.transpose(1, 2).unflatten(2, (self.side, self.side))
        return self.reduce(image).flatten(2).transpose(1, 2)


class Average(nn.Module):
    """Over the positions: [batch, length, width] -> [batch, width]."""

    def forward(self, sequence: Tensor) -> Tensor:
        return sequence.mean(1)


class OverPositions(nn.Module):
    """A part that mixes positions instead of channels."""

    def __init__(self, part: nn.Module) -> None:
        super().__init__()
        self.part = part

    def forward(self, sequence: Tensor) -> Tensor:  # [batch, length, width] -> the same
        return self.part(sequence.transpose(1, 2)).transpose(1, 2)


def mixer(width: int, layers: int) -> nn.Module:
    """Tolstikhin et al., MLP-Mixer, 2021."""
    parts = [(OverPositions(feed_forward(196, width // 2)), feed_forward(width, 4 * width)) for _ in range(layers)]
    blocks = [Block(width, *pair) for pair in parts]
    return nn.Sequential(Patches(16, width), *blocks, nn.LayerNorm(width), Average(), nn.Linear(width, 1000))


class MaskedAutoencoder(nn.Module):
    """He et al., Masked Autoencoders Are Scalable Vision Learners, 2022: a quarter is encoded, all is decoded."""

    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        self.patches, self.encoder, self.enter = Patches(16, width), encoder(width, 8, layers), nn.Linear(width, 256)
        self.decoder, self.output = encoder(256, 8, 4), nn.Linear(256, 768)
        self.missing, self.positions = nn.Parameter(torch.empty(1, 1, 256)), nn.Parameter(torch.empty(196, 256))

    def forward(self, image: Tensor) -> Tensor:  # [batch, 3, 224, 224] -> [batch, 196, 768]
        patches = self.patches(image)
        order = torch.rand(patches.shape[:2]).argsort(1).unsqueeze(2)  # [batch, 196, 1]
        kept = patches.gather(1, order[:, :49].expand(-1, -1, patches.shape[2]))
        seen = self.enter(self.encoder(kept))  # [batch, 49, 256]
        every = torch.cat([seen, self.missing.expand(len(seen), 147, -1)], 1)
        back = order.argsort(1).expand(-1, -1, 256)
        return self.output(self.decoder(every.gather(1, back) + self.positions))


class Clip(nn.Module):
    """Radford et al., Learning Transferable Visual Models From Natural Language Supervision, 2021: two towers."""

    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        self.patches, self.image, self.text = Patches(32, width), encoder(width, 8, layers), encoder(width, 8, layers)
        self.words, self.scale = Embedded(49408, width, 77), nn.Parameter(torch.empty(()))
        self.outputs = nn.ModuleList(nn.Linear(width, 512, bias=False) for _ in range(2))

    def forward(self, image: Tensor, text: Tensor) -> Tensor:  # [batch, 3, 224, 224], [batch, 77] -> [batch, batch]
        both = self.image(self.patches(image)).mean(1), self.text(self.words(text))[:, -1]
        sides = [nn.functional.normalize(output(side), dim=1) for output, side in zip(self.outputs, both, strict=True)]
        return self.scale.exp() * sides[0] @ sides[1].T


def _both_ways(scores: Tensor) -> Tensor:  # [batch, batch] -> []
    return (cross_entropy(scores) + cross_entropy(scores.T)) / 2


class Perceiver(nn.Module):
    """Jaegle et al., Perceiver, 2021: a few latents look at all pixels again and again, and all looks but
    the first share weights."""

    def __init__(self, width: int, latents: int, looks: int, layers: int) -> None:
        super().__init__()
        self.latents = nn.Parameter(torch.empty(1, latents, width))
        self.across = nn.ModuleList(Attention(width, 1, memory_width=131) for _ in range(2))
        self.alone = nn.ModuleList(Block(width, feed_forward(width, width)) for _ in range(2))
        self.inside = encoder(width, 8, layers)
        self.positions, self.looks, self.output = nn.Parameter(torch.empty(4096, 128)), looks, nn.Linear(width, 1000)

    def forward(self, image: Tensor) -> Tensor:  # [batch, 3, 64, 64] -> [batch, 1000]
        pixels = image.flatten(2).transpose(1, 2)
        pixels = torch.cat([pixels, self.positions.expand(len(pixels), -1, -1)], 2)  # [batch, 4096, 131]
        latents = self.latents.expand(len(pixels), -1, -1)
        for look in range(self.looks):
            shared = min(look, 1)
            latents = self.inside(self.alone[shared](latents + self.across[shared](latents, pixels)))
        return self.output(latents.mean(1))


def _clip() -> tuple[nn.Module, tuple[Tensor, ...]]:
    return Supervised(Clip(512, 6), _both_ways), (torch.zeros(64, 3, 224, 224), tokens(64, 77))


def _images(name: str, make: Callable[[], nn.Module], batch: int = 64, loss: Loss = cross_entropy) -> Network:
    return entry(name, "vision_transformers", make, (batch, 3, 224, 224), loss=loss)


NETWORKS = (
    _images("vit_small12", lambda: VisionTransformer(384, 6, 12)),
    _images("deit_tiny10", lambda: VisionTransformer(192, 3, 10, first=2)),
    _images("swin_tiny", Swin),
    _images("swin_small", lambda: Swin((2, 2, 18, 2)), 32),
    _images("pyramid_tiny", pyramid),
    _images("mixer8", lambda: mixer(512, 8)),
    Network(name="clip6", family="vision_transformers", build=_clip),
    entry("perceiver", "vision_transformers", lambda: Perceiver(512, 128, 4, 3), (16, 3, 64, 64)),
    _images("masked_autoencoder", lambda: MaskedAutoencoder(512, 8), loss=squared_error),
)
