"""Transformers over tokens, written out: the first one, and those whose parts stand in another arrangement."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from torch import Tensor, nn

from placewright.datasets.zoo.attention import (
    Attention,
    Block,
    Embedded,
    Gated,
    RootMean,
    feed_forward,
    rotated,
)
from placewright.datasets.zoo.sequences import token_entry

VOCABULARY = 32000


class DecoderBlock(nn.Module):
    """Looks at itself, then at the encoded source, then at every position alone; sums are normalised."""

    def __init__(self, width: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.own, self.across = Attention(width, heads, causal=True), Attention(width, heads)
        self.alone, self.drop = feed_forward(width, hidden, nn.ReLU), nn.Dropout(0.1)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))

    def forward(self, sequence: Tensor, encoded: Tensor) -> Tensor:  # [batch, length, width] each -> the same
        sequence = self.norms[0](sequence + self.drop(self.own(sequence)))
        sequence = self.norms[1](sequence + self.drop(self.across(sequence, encoded)))
        return self.norms[2](sequence + self.drop(self.alone(sequence)))


class Transformer(nn.Module):
    """Vaswani et al., Attention Is All You Need, 2017, with learned positions and one table for both languages."""

    def __init__(self, width: int, heads: int, hidden: int, layers: int) -> None:
        super().__init__()
        self.embedding = Embedded(VOCABULARY, width, 512)
        parts = [(Attention(width, heads), feed_forward(width, hidden, nn.ReLU)) for _ in range(layers)]
        self.encoder = nn.Sequential(*(Block(width, *pair, before=False) for pair in parts))
        self.decoder = nn.ModuleList(DecoderBlock(width, heads, hidden) for _ in range(layers))

    def forward(self, source: Tensor, target: Tensor) -> Tensor:  # [batch, length] each
        encoded, sequence = self.encoder(self.embedding(source)), self.embedding(target)
        for block in self.decoder:
            sequence = block(sequence, encoded)
        return sequence @ self.embedding.tokens.weight.T  # [batch, length, vocabulary]


class RotaryAttention(Attention):
    """Attention whose queries and keys are turned by their positions."""

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return super().attend(rotated(query), rotated(key), value)


class ParallelBlock(nn.Module):
    """Attention and feed-forward part read the same input (Black et al., GPT-NeoX-20B, 2022, section 2.1)."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention, self.alone = RotaryAttention(width, heads, causal=True), feed_forward(width, 4 * width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))

    def forward(self, sequence: Tensor) -> Tensor:  # [batch, length, width] -> the same
        return sequence + self.attention(self.norms[0](sequence)) + self.alone(self.norms[1](sequence))


class LanguageModel(nn.Module):
    """Blocks over embedded tokens, the embedding's table again at the end."""

    def __init__(
        self, width: int, blocks: Iterable[nn.Module], norm: Callable[[int], nn.Module] = nn.LayerNorm
    ) -> None:
        super().__init__()
        self.embedding, self.blocks = Embedded(VOCABULARY, width, 1024), nn.Sequential(*blocks)
        self.norm = norm(width)

    def forward(self, tokens: Tensor) -> Tensor:  # [batch, length] -> [batch, length, vocabulary]
        return self.norm(self.blocks(self.embedding(tokens))) @ self.embedding.tokens.weight.T


def neox(width: int, heads: int, layers: int) -> LanguageModel:
    """GPT-NeoX: parallel parts, rotary positions."""
    return LanguageModel(width, [ParallelBlock(width, heads) for _ in range(layers)])


def llama(width: int, heads: int, kv_heads: int, layers: int) -> LanguageModel:
    """Touvron et al., LLaMA, 2023, with the grouped queries of Llama 2: gated parts, root mean square norms."""

    def block() -> nn.Module:
        attention = RotaryAttention(width, heads, kv_heads=kv_heads, causal=True, bias=False)
        return Block(width, attention, Gated(width, 8 * width // 3), norm=RootMean)

    return LanguageModel(width, [block() for _ in range(layers)], RootMean)


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


NETWORKS = (
    token_entry("transformer_base", "transformer", lambda: Transformer(512, 8, 2048, 6), (32, 64), (32, 64)),
    token_entry("transformer_big4", "transformer", lambda: Transformer(1024, 16, 4096, 4), (16, 64), (16, 64)),
    token_entry("neox8", "transformer", lambda: neox(768, 12, 8), (8, 256)),
    token_entry("llama8", "transformer", lambda: llama(768, 12, 4, 8), (4, 512)),
    token_entry("universal6", "transformer", lambda: universal(512, 8, 6), (16, 128)),
    token_entry("sandwich8", "transformer", lambda: sandwich(512, 8, 8), (16, 256)),
    token_entry("macaron6", "transformer", lambda: macaron(512, 8, 6), (16, 256)),
)
