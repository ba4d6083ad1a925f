"""Small random networks for training loops: a stem that reads the input, a trunk of parts, a head, and a loss."""

from __future__ import annotations

import random
from collections import namedtuple
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from training_loop_parts import PARTS, WIDTH

CLASSES, LENGTH, VOCABULARY = 3, 5, 11
Output = namedtuple("Output", ["loss", "scores"])


class Tokens(nn.Module):
    """An embedding and attention over it."""

    def __init__(self, choice: random.Random) -> None:
        super().__init__()
        sort: dict[str, Any] = {"padding_idx": 0} if choice.random() < 0.4 else {}
        if choice.random() < 0.15:
            sort |= {"max_norm": 2.0}
        if choice.random() < 0.06:
            sort |= {"sparse": True}
        self.embedding = nn.Embedding(VOCABULARY, WIDTH, **sort)
        self.dropout, self.whole = choice.choice([0.0, 0.2]), choice.random() < 0.5
        self.attention = nn.MultiheadAttention(WIDTH, 2, dropout=self.dropout, batch_first=True)

    def forward(self, x: Any) -> Any:
        x = self.embedding(x)
        if self.whole:
            return self.attention(x, x, x, need_weights=False)[0].mean(1)
        return functional.scaled_dot_product_attention(x, x, x, is_causal=True).mean(1)


class Recurrent(nn.Module):
    """An LSTM, a GRU or a cell of one."""

    def __init__(self, choice: random.Random) -> None:
        super().__init__()
        self.layer: nn.Module = choice.choice([nn.LSTM, nn.GRU])(4, WIDTH, batch_first=True)
        self.cell = choice.random() < 0.4
        if self.cell:
            self.layer = nn.LSTMCell(4, WIDTH)

    def forward(self, x: Any) -> Any:
        if not self.cell:
            return self.layer(x)[0][:, -1]
        state = self.layer(x[:, 0])
        for each in range(1, x.shape[1]):
            state = self.layer(x[:, each], state)
        return state[0]


def image(choice: random.Random) -> nn.Module:
    pool = choice.choice([nn.AdaptiveAvgPool2d(1), nn.AdaptiveMaxPool2d(1)])
    conv = nn.Conv2d(2, WIDTH, 3, padding=1, bias=choice.random() < 0.5)
    layers = nn.Sequential(conv, nn.BatchNorm2d(WIDTH), nn.ReLU(inplace=choice.random() < 0.5), pool, nn.Flatten())
    return layers.to(memory_format=torch.channels_last) if choice.random() < 0.3 else layers


#: From an input to (batch, WIDTH), and the shape of a sample.
STEMS: dict[str, tuple[Callable[[random.Random], nn.Module], tuple[int, ...]]] = {
    "vector": (lambda choice: nn.Linear(6, WIDTH), (6,)),
    "image": (image, (2, 6, 6)),
    "tokens": (Tokens, (LENGTH,)),
    "sequence": (Recurrent, (LENGTH, 4)),
}


class Objective(nn.Module):
    """A network and its loss, which forward gives as a scalar, in a named tuple, or leaves to a function."""

    def __init__(self, stem: str, parts: Sequence[str], style: str, seed: int) -> None:
        super().__init__()
        choice = random.Random(seed)
        self.stem = STEMS[stem][0](choice)
        self.trunk = nn.ModuleList(PARTS[part](choice) for part in parts)
        self.head = nn.Linear(WIDTH, CLASSES)
        self.style, self.weight, self.smoothing = style, 1.0, choice.choice([0.0, 0.1])
        self.register_buffer("scale", torch.ones(()))

    def forward(self, x: Any, target: Any) -> Any:
        x = self.stem(x)
        for part in self.trunk:
            x = part(x)
        scores = self.head(x)
        if self.style == "function":
            return scores
        loss = functional.cross_entropy(scores, target, label_smoothing=self.smoothing) * self.weight * self.scale
        return loss if self.style == "scalar" else Output(loss, scores.detach())
