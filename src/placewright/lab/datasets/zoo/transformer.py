"""Transformers over tokens whose parts stand in another arrangement than the first one's."""

from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor, nn

from placewright.lab.datasets.zoo.attention import Attention, Block, Embedded, feed_forward

VOCABULARY = 32000


class LanguageModel(nn.Module):
    """Blocks over embedded tokens, the embedding's table again at the end."""

    def __init__(self, width: int, blocks: Iterable[nn.Module]) -> None:
        super().__init__()
        self.embedding, self.blocks = Embedded(VOCABULARY, width, 1024), nn.Sequential(*blocks)
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens: Tensor) -> Tensor:  # [batch, length] -> [batch, length, vocabulary]
        return self.norm(self.blocks(self.embedding(tokens))) @ self.embedding.tokens.weight.T


def universal(width: int, heads: int, steps: int) -> LanguageModel:
    """Dehghani et al., Universal Transformers, 2019, without halting: one block, step after step."""
    block = Block(width, Attention(width, heads, causal=True), feed_forward(width, 4 * width, nn.ReLU))
    return LanguageModel(width, [block] * steps)


def sandwich(width: int, heads: int, layers: int) -> LanguageModel:
    """Press et al., Improving Transformer Models by Reordering their Sublayers, 2020: attention comes first."""
    attention = [Block(width, Attention(width, heads, causal=True)) for _ in range(layers)]
    return LanguageModel(width, attention + [Block(width, feed_forward(width, 4 * width)) for _ in range(layers)])


def macaron(width: int, heads: int, layers: int) -> LanguageModel:
    """Lu et al., Understanding and Improving Transformer From a Multi-Particle View, 2019: attention between halves."""
    parts = [
        (feed_forward(width, 2 * width), Attention(width, heads, causal=True), feed_forward(width, 2 * width))
        for _ in range(layers)
    ]
    return LanguageModel(width, [Block(width, *three) for three in parts])
