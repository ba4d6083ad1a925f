"""Transformers over tokens."""

from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor, nn

from placewright.lab.datasets.zoo.attention import Embedded

VOCABULARY = 32000


class LanguageModel(nn.Module):
    """Blocks over embedded tokens, the embedding's table again at the end."""

    def __init__(self, width: int, blocks: Iterable[nn.Module]) -> None:
        super().__init__()
        self.embedding, self.blocks = Embedded(VOCABULARY, width, 1024), nn.Sequential(*blocks)
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens: Tensor) -> Tensor:  # [batch, length] -> [batch, length, vocabulary]
        return self.norm(self.blocks(self.embedding(tokens))) @ self.embedding.tokens.weight.T
