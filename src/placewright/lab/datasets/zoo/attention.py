"""Parts of transformers; sequences are [batch, length, width], every product spelled out as in the first papers."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

Layer = Callable[[], nn.Module]


class Attention(nn.Module):
    """Multi-head attention (Vaswani et al., Attention Is All You Need, 2017, section 3.2).

    causal: no position looks at a later one.
    """

    def __init__(self, width: int, heads: int, *, causal: bool = False, bias: bool = True) -> None:
        super().__init__()
        self.size, self.causal = width // heads, causal
        self.query, self.key, self.value, self.output = (nn.Linear(width, width, bias) for _ in range(4))

    def forward(self, sequence: Tensor) -> Tensor:  # -> as the sequence
        query, key, value = self.query(sequence), self.key(sequence), self.value(sequence)
        return self.output(joined(self.attend(split(query, self.size), split(key, self.size), split(value, self.size))))

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:  # [batch, heads, length, size] each
        scores = query @ key.transpose(2, 3) * self.size**-0.5  # [batch, heads, length, memory length]
        return torch.softmax(masked(scores) if self.causal else scores, 3) @ value


def split(sequence: Tensor, size: int) -> Tensor:  # [batch, length, heads * size] -> [batch, heads, length, size]
    """The heads of a sequence."""
    return sequence.unflatten(2, (-1, size)).transpose(1, 2)


def joined(heads: Tensor) -> Tensor:  # [batch, heads, length, size] -> [batch, length, heads * size]
    """The sequence of its heads."""
    return heads.transpose(1, 2).flatten(2)


def masked(scores: Tensor) -> Tensor:  # [..., length, memory length] -> the same
    """Scores with minus infinity where a position would look at a later one; the ends are aligned."""
    length, total = scores.shape[-2:]
    later = torch.ones(length, total, dtype=torch.bool, device=scores.device).triu(1 + total - length)
    return scores.masked_fill(later, float("-inf"))


def feed_forward(width: int, hidden: int, activation: Layer = nn.GELU) -> nn.Sequential:
    """Two layers, position by position."""
    return nn.Sequential(nn.Linear(width, hidden), activation(), nn.Linear(hidden, width))


class Block(nn.Module):
    """Parts one after the other, each with dropout and a residual connection.

    before: normalise what a part reads (Xiong et al., On Layer Normalization in the Transformer Architecture, 2020)
    rather than the sum. Parts take the sequence alone.
    """

    def __init__(self, width: int, *parts: nn.Module, before: bool = True) -> None:
        super().__init__()
        self.parts, self.norms = nn.ModuleList(parts), nn.ModuleList(nn.LayerNorm(width) for _ in parts)
        self.drop, self.before = nn.Dropout(0.1), before

    def forward(self, sequence: Tensor) -> Tensor:
        for part, norm in zip(self.parts, self.norms, strict=True):
            if self.before:
                sequence = sequence + self.drop(part(norm(sequence)))
            else:
                sequence = norm(sequence + self.drop(part(sequence)))
        return sequence


class Embedded(nn.Module):
    """Tokens with learned positions: [batch, length] -> [batch, length, width]."""

    def __init__(self, vocabulary: int, width: int, length: int) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Parameter(torch.randn(length, width))

    def forward(self, tokens: Tensor) -> Tensor:
        return self.tokens(tokens) + self.positions[: tokens.shape[1]]
