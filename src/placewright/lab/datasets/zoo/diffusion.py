"""A U-Net that removes noise: DDPM."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional


class Residual(nn.Module):
    """Two convolutions, between them the embedding of the time."""

    def __init__(self, inputs: int, outputs: int, time: int, dropout: float) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.GroupNorm(32, inputs), nn.SiLU(), nn.Conv2d(inputs, outputs, 3, 1, 1))
        self.time = nn.Sequential(nn.SiLU(), nn.Linear(time, outputs))
        second = nn.GroupNorm(32, outputs), nn.SiLU(), nn.Dropout(dropout), nn.Conv2d(outputs, outputs, 3, 1, 1)
        self.second = nn.Sequential(*second)
        self.shortcut = nn.Identity() if inputs == outputs else nn.Conv2d(inputs, outputs, 1)

    def forward(
        self, image: Tensor, time: Tensor
    ) -> Tensor:  # [batch, inputs, h, w], [batch, time] -> [.., outputs, ..]
        features = self.first(image) + self.time(time)[:, :, None, None]
        return self.shortcut(image) + self.second(features)


class Attend(nn.Module):
    """Scaled-dot-product attention."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))

    def forward(self, tokens: Tensor) -> Tensor:  # [batch, n, width] -> the same
        parts = (self.query(tokens), self.key(tokens), self.value(tokens))
        query, key, value = (part.unflatten(2, (self.heads, -1)).transpose(1, 2) for part in parts)
        found = functional.scaled_dot_product_attention(query, key, value)  # [batch, heads, n, width / heads]
        return self.out(found.transpose(1, 2).flatten(2))


class Attention(nn.Module):
    """Attention of the pixels to each other."""

    def __init__(self, channels: int, heads: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(32, channels)
        self.own = Attend(channels, heads)

    def forward(self, image: Tensor) -> Tensor:  # [batch, channels, h, w] -> the same
        tokens = self.own(self.norm(image).flatten(2).transpose(1, 2))  # [batch, h * w, channels]
        return image + tokens.transpose(1, 2).unflatten(2, image.shape[2:])


class Level(nn.Module):
    """A residual block and, optionally, attention."""

    def __init__(self, residual: nn.Module, attention: nn.Module | None) -> None:
        super().__init__()
        self.residual = residual
        self.attention = attention

    def forward(self, image: Tensor, time: Tensor) -> Tensor:  # [batch, inputs, h, w], [batch, time]
        image = self.residual(image, time)
        return image if self.attention is None else self.attention(image)


class Denoiser(nn.Module):
    """Ho et al., Denoising Diffusion Probabilistic Models, NeurIPS 2020, appendix B.

    channels: of the image. widths: of each level. attended: levels with attention.
    """

    def __init__(
        self, channels: int, widths: Sequence[int], attended: Collection[int], *, heads: int, dropout: float
    ) -> None:
        super().__init__()
        self.width, time = widths[0], 4 * widths[0]
        residual = partial(Residual, time=time, dropout=dropout)

        def level(inputs: int, outputs: int, place: int) -> Level:
            return Level(residual(inputs, outputs), Attention(outputs, heads) if place in attended else None)

        self.time = nn.Sequential(nn.Linear(self.width, time), nn.SiLU(), nn.Linear(time, time))
        self.enter = nn.Conv2d(channels, self.width, 3, 1, 1)
        self.down, self.up = nn.ModuleList(), nn.ModuleList()
        kept, inputs = [self.width], self.width
        for place, width in enumerate(widths):
            for _ in range(2):
                self.down.append(level(inputs, width, place))
                kept.append(width)
                inputs = width
            if place < len(widths) - 1:
                self.down.append(nn.Conv2d(width, width, 3, 2, 1))
                kept.append(width)
        self.middle = nn.ModuleList(
            [Level(residual(inputs, inputs), Attention(inputs, heads)), residual(inputs, inputs)]
        )
        for place, width in reversed(list(enumerate(widths))):
            for _ in range(3):
                self.up.append(level(inputs + kept.pop(), width, place))
                inputs = width
            if place:
                self.up.append(nn.Sequential(nn.Upsample(scale_factor=2.0), nn.Conv2d(width, width, 3, 1, 1)))
        self.leave = nn.Sequential(nn.GroupNorm(32, inputs), nn.SiLU(), nn.Conv2d(inputs, channels, 3, 1, 1))

    def forward(self, image: Tensor, step: Tensor) -> Tensor:
        # [batch, channels, h, w], [batch] -> the noise in the image, of its shape
        frequencies = torch.exp(torch.arange(self.width // 2) * (-9.21 / (self.width // 2)))  # [width / 2]
        angles = step[:, None] * frequencies  # [batch, width / 2]
        time = self.time(torch.cat([angles.sin(), angles.cos()], dim=1))  # [batch, time]
        kept = [self.enter(image)]
        for layer in self.down:
            kept.append(layer(kept[-1], time) if isinstance(layer, Level) else layer(kept[-1]))
        image = self.middle[1](self.middle[0](kept[-1], time), time)
        for layer in self.up:
            image = layer(torch.cat([image, kept.pop()], 1), time) if isinstance(layer, Level) else layer(image)
        return self.leave(image)


DDPM = partial(Denoiser, 3, (128, 256, 256, 256), (1,), heads=1, dropout=0.1)
