"""Recommenders: many small tables and branches that meet; sparse inputs are one index per field."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn

ROWS = 10000  # of every table


def perceptron(*widths: int) -> nn.Sequential:
    """Linear layers with ReLU between them."""
    layers = [nn.Linear(*ends) for ends in pairwise(widths)]
    return nn.Sequential(*(part for layer in layers for part in (layer, nn.ReLU())))[:-1]


class Fields(nn.Module):
    """A table per field: [batch, fields] -> [batch, width] for each."""

    def __init__(self, fields: int, width: int) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(ROWS, width) for _ in range(fields))

    def forward(self, sparse: Tensor) -> list[Tensor]:
        return [table(index) for table, index in zip(self.tables, sparse.unbind(1), strict=True)]


class Dlrm(nn.Module):
    """Naumov et al., Deep Learning Recommendation Model, 2019: products of every two fields."""

    def __init__(self, fields: int, width: int) -> None:
        super().__init__()
        self.bottom, self.fields = perceptron(13, 512, 256, width), Fields(fields, width)
        self.top = perceptron(width + fields * (fields + 1) // 2, 512, 256, 1)
        self.register_buffer("pairs", torch.zeros(fields * (fields + 1) // 2, dtype=torch.int64))

    def forward(self, dense: Tensor, sparse: Tensor) -> Tensor:  # [batch, 13], [batch, fields] -> [batch, 1]
        bottom = self.bottom(dense)
        every = torch.stack([bottom, *self.fields(sparse)], 1)  # [batch, fields + 1, width]
        products = torch.bmm(every, every.transpose(1, 2)).flatten(1)[:, self.pairs]
        return self.top(torch.cat([bottom, products], 1))


class ExpertTasks(nn.Module):
    """Ma et al., Multi-gate Mixture-of-Experts, 2018: every task weighs shared experts."""

    def __init__(self, fields: int, width: int, experts: int, tasks: int) -> None:
        super().__init__()
        total = 13 + fields * width
        self.fields = Fields(fields, width)
        self.shared = nn.ModuleList(perceptron(total, 256, 128) for _ in range(experts))
        self.gates = nn.ModuleList(nn.Linear(total, experts) for _ in range(tasks))
        self.towers = nn.ModuleList(perceptron(128, 64, 1) for _ in range(tasks))

    def forward(self, dense: Tensor, sparse: Tensor) -> Tensor:  # [batch, 13], [batch, fields] -> [batch, tasks]
        every = torch.cat([dense, *self.fields(sparse)], 1)
        shared, results = [expert(every) for expert in self.shared], []  # [batch, 128] each
        for gate, tower in zip(self.gates, self.towers, strict=True):
            found = torch.stack(shared, 1)  # [batch, experts, 128]
            weights = torch.softmax(gate(every), 1).unsqueeze(2)
            results.append(tower((found * weights).sum(1)))
        return torch.cat(results, 1)
