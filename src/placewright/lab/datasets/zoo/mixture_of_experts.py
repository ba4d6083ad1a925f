"""Mixtures of experts: the router weighs parallel branches, one per expert, each over a fixed share of the tokens."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from placewright.lab.datasets.zoo.attention import Attention, Block, Gated, feed_forward
from placewright.lab.datasets.zoo.recurrent_cells import LstmCell, run
from placewright.lab.datasets.zoo.transformer import LanguageModel

MakeExpert = Callable[[], nn.Module]


class Dispatched(nn.Module):
    """Every expert has `capacity` places; products with one-hot masks bring tokens there and back (Lepikhin et al.,
    GShard, 2021, algorithm 1). chosen: experts per token; 1 is Fedus et al., Switch Transformers, 2022."""

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


class Soft(nn.Module):
    """Puigcerver et al., From Sparse to Soft Mixtures of Experts, 2024: slots are weighted means of all tokens."""

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


class Hierarchical(nn.Module):
    """Two levels of dense gates (Jordan and Jacobs, Hierarchical Mixtures of Experts, 1994)."""

    def __init__(self, width: int, groups: int, experts: int) -> None:
        super().__init__()
        self.gates = nn.ModuleList(nn.Linear(width, experts) for _ in range(groups))
        self.top = nn.Linear(width, groups)
        self.experts = nn.ModuleList(
            nn.ModuleList(feed_forward(width, 2 * width) for _ in range(experts)) for _ in range(groups)
        )

    def forward(self, sequence: Tensor) -> Tensor:  # [batch, length, width] -> the same
        groups = [
            _weighted(gate(sequence), [expert(sequence) for expert in experts])
            for gate, experts in zip(self.gates, self.experts, strict=True)
        ]
        return _weighted(self.top(sequence), groups)


def _weighted(scores: Tensor, results: list[Tensor]) -> Tensor:  # [..., count], [..., width] each -> [..., width]
    """The results by the softmax of their scores."""
    weights = torch.softmax(scores, -1).unsqueeze(-1).unbind(-2)  # [..., 1] each
    total, *others = [weight * result for weight, result in zip(weights, results, strict=True)]
    for other in others:
        total = total + other
    return total


class Outrageous(nn.Module):
    """Shazeer et al., Outrageously Large Neural Networks, 2017: a mixture between two recurrent layers."""

    def __init__(self, width: int, experts: int, vocabulary: int = 10000) -> None:
        super().__init__()
        self.embedding, self.output = nn.Embedding(vocabulary, width), nn.Linear(width, vocabulary)
        self.cells = nn.ModuleList(LstmCell(width, width) for _ in range(2))
        self.mixture = Dispatched(width, experts, 2, 128, lambda: feed_forward(width, 2 * width, nn.ReLU))

    def forward(self, tokens: Tensor) -> Tensor:  # [batch, length] -> [batch, length, vocabulary]
        below = torch.stack(run(self.cells[0], self.embedding(tokens).unbind(1)), 1)  # [batch, length, width]
        mixed = below + torch.sigmoid(self.mixture(below))
        return self.output(torch.stack(run(self.cells[1], mixed.unbind(1)), 1))


def sparse(width: int, layers: int, experts: int, chosen: int, capacity: int, *, every: int) -> LanguageModel:
    """A transformer where every so many-th block has a mixture instead of one feed-forward part."""

    def block(place: int) -> nn.Module:
        mixed = place % every == every - 1
        part = Dispatched(width, experts, chosen, capacity, lambda: feed_forward(width, 4 * width, nn.ReLU))
        return Block(width, Attention(width, 8, causal=True), part if mixed else feed_forward(width, 4 * width))

    return LanguageModel(width, [block(place) for place in range(layers)])


def mixtral(width: int, layers: int) -> LanguageModel:
    """Jiang et al., Mixtral of Experts, 2024: two of eight gated experts in every block; a small one."""

    def block() -> nn.Module:
        attention = Attention(width, 8, kv_heads=2, causal=True, bias=False)
        return Block(width, attention, Dispatched(width, 8, 2, 640, lambda: Gated(width, 3 * width)))

    return LanguageModel(width, [block() for _ in range(layers)])


def soft(width: int, layers: int, experts: int, slots: int) -> LanguageModel:
    """A transformer whose blocks have soft mixtures."""
    return LanguageModel(width, [Block(width, Attention(width, 8), Soft(width, experts, slots)) for _ in range(layers)])


def hierarchical(width: int, layers: int, groups: int, experts: int) -> LanguageModel:
    """A transformer whose blocks have mixtures of two levels."""
    return LanguageModel(
        width, [Block(width, Attention(width, 8), Hierarchical(width, groups, experts)) for _ in range(layers)]
    )
