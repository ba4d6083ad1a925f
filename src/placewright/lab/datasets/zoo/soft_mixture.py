"""Soft mixture of experts (Puigcerver et al., From Sparse to Soft Mixtures of Experts, 2024)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from placewright.lab.datasets.zoo.attention import Attention, Block, feed_forward
from placewright.lab.datasets.zoo.transformer import LanguageModel


class Soft(nn.Module):
    """Experts over slots, each of which is a weighted mean of all tokens."""

    def __init__(self, width: int, experts: int, slots: int) -> None:
        super().__init__()
        self.slots = nn.Linear(width, experts * slots, bias=False)
        self.experts = nn.ModuleList(feed_forward(width, 4 * width) for _ in range(experts))

    def forward(self, sequence: Tensor) -> Tensor:  # [batch, length, width] -> the same
        scores = self.slots(sequence)  # [batch, length, experts * slots]
        slots = torch.softmax(scores, 1).transpose(1, 2) @ sequence  # [batch, experts * slots, width]
        parts = slots.chunk(len(self.experts), 1)
        found = torch.cat([expert(part) for expert, part in zip(self.experts, parts, strict=True)], 1)
        return torch.softmax(scores, 2) @ found


def soft(width: int, layers: int, experts: int, slots: int) -> LanguageModel:
    """A transformer whose blocks have soft mixtures."""
    return LanguageModel(width, [Block(width, Attention(width, 8), Soft(width, experts, slots)) for _ in range(layers)])
