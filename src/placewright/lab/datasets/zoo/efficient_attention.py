"""Transformers whose attention goes segment by segment."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from placewright.lab.datasets.zoo.attention import Attention, Block, feed_forward, joined, masked, split
from placewright.lab.datasets.zoo.transformer import VOCABULARY


class SegmentAttention(Attention):
    """Attention over a segment and the one before it, with relative positions (Dai et al., Transformer-XL, 2019)."""

    def __init__(self, width: int, heads: int, length: int) -> None:
        super().__init__(width, heads, bias=False)
        self.places = nn.Parameter(torch.randn(2 * length, width))
        self.content_bias, self.place_bias = (nn.Parameter(torch.randn(heads, 1, width // heads)) for _ in range(2))

    def forward(self, sequence: Tensor, before: Tensor | None = None) -> Tensor:  # [batch, length, width] each
        memory = sequence if before is None else torch.cat([before.detach(), sequence], 1)
        query = split(self.query(sequence), self.size)  # [batch, heads, length, size]
        key, value = split(self.key(memory), self.size), split(self.value(memory), self.size)
        places = split(self.places[: memory.shape[1]].unsqueeze(0), self.size)
        content = (query + self.content_bias) @ key.transpose(2, 3)  # [batch, heads, length, memory length]
        scores = masked(content + _shifted((query + self.place_bias) @ places.transpose(2, 3)))
        return self.output(joined(torch.softmax(scores * self.size**-0.5, 3) @ value))


def _shifted(scores: Tensor) -> Tensor:  # [batch, heads, length, total] -> the same
    """Row i moved left by length - i - 1: column distances become columns (appendix B of Transformer-XL)."""
    batch, heads, length, total = scores.shape
    padded = torch.cat([scores.new_zeros(batch, heads, length, 1), scores], 3)
    return padded.view(batch, heads, total + 1, length)[:, :, 1:].reshape(batch, heads, length, total)


class TransformerXl(nn.Module):
    """Two segments, one after the other; each layer of the second also sees the first's input to that layer."""

    def __init__(self, width: int, heads: int, layers: int, length: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, width)
        self.attentions = nn.ModuleList(SegmentAttention(width, heads, length) for _ in range(layers))
        self.alone = nn.ModuleList(Block(width, feed_forward(width, 4 * width), before=False) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(layers))

    def forward(self, tokens: Tensor) -> Tensor:  # [batch, 2 length] -> [batch, 2 length, vocabulary]
        first, second = self.embedding(tokens).chunk(2, 1)
        for attention, alone, norm in zip(self.attentions, self.alone, self.norms, strict=True):
            seen = first
            first = alone(norm(first + attention(first)))
            second = alone(norm(second + attention(second, seen)))
        return torch.cat([first, second], 1) @ self.embedding.weight.T
