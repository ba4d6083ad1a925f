"""Mixtures of experts: the router weighs parallel branches, one per expert, each over a fixed share of the tokens."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from placewright.lab.datasets.zoo.attention import Attention, Block, feed_forward
from placewright.lab.datasets.zoo.transformer import LanguageModel

MakeExpert = Callable[[], nn.Module]


class Dispatched(nn.Module):
    """A mixture in which every expert has `capacity` places; products with one-hot masks send tokens to experts and
    back (Lepikhin et al., GShard, 2021, algorithm 1). chosen: experts per token; 1 is Fedus et al., Switch
    Transformers, 2022."""

    def __init__(self, width: int, experts: int, chosen: int, capacity: int, make: MakeExpert) -> None:
        super().__init__()
        self.router, self.experts = nn.Linear(width, experts, bias=False), nn.ModuleList(make() for _ in range(experts))
        self.chosen, self.capacity = chosen, capacity

    def forward(self, sequence: Tensor) -> Tensor:  # [batch, length, width] -> the same
        tokens = sequence.flatten(0, 1)  # [tokens, width]
        shares = torch.softmax(self.router(tokens), 1)  # [tokens, experts]
        best, experts = shares.topk(self.chosen, 1)  # [tokens, chosen]
        wanted = nn.functional.one_hot(experts, len(self.experts)).sum(1)  # [tokens, experts]
        place = wanted.cumsum(0) * wanted - 1  # [tokens, experts]; -1 and those beyond the capacity go nowhere
        places = torch.arange(self.capacity, device=place.device)
        weights = (shares * wanted / best.sum(1, keepdim=True)).unbind(1)
        total = torch.zeros_like(tokens)
        for expert, column, weight in zip(self.experts, place.unbind(1), weights, strict=True):
            mask = (column.unsqueeze(1) == places).to(tokens.dtype)  # [tokens, capacity]
            total = total + (mask * weight.unsqueeze(1)) @ expert(mask.T @ tokens)
        return total.view_as(sequence)


def sparse(width: int, layers: int, experts: int, chosen: int, capacity: int, *, every: int) -> LanguageModel:
    """Return a transformer in which every `every`-th block has a mixture instead of one feed-forward part."""

    def block(place: int) -> nn.Module:
        mixed = place % every == every - 1
        part = Dispatched(width, experts, chosen, capacity, lambda: feed_forward(width, 4 * width, nn.ReLU))
        return Block(width, Attention(width, 8, causal=True), part if mixed else feed_forward(width, 4 * width))

    return LanguageModel(width, [block(place) for place in range(layers)])
