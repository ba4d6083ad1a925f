"""Recommenders: many small tables and branches that meet; sparse inputs are one index per field."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn

from placewright.lab.datasets.zoo.attention import Attention, Block, feed_forward
from placewright.lab.datasets.zoo.recurrent_cells import GruCell, run

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


class WideAndDeep(nn.Module):
    """Cheng et al., Wide & Deep Learning for Recommender Systems, 2016."""

    def __init__(self, fields: int, width: int) -> None:
        super().__init__()
        self.wide, self.fields = Fields(fields, 1), Fields(fields, width)
        self.deep = perceptron(13 + fields * width, 1024, 512, 256, 1)

    def forward(self, dense: Tensor, sparse: Tensor) -> Tensor:  # [batch, 13], [batch, fields] -> [batch, 1]
        wide = torch.cat(self.wide(sparse), 1).sum(1, keepdim=True)
        return wide + self.deep(torch.cat([dense, *self.fields(sparse)], 1))


class DeepFm(nn.Module):
    """Guo et al., DeepFM, 2017: a factorisation machine beside a perceptron, over the same tables."""

    def __init__(self, fields: int, width: int) -> None:
        super().__init__()
        self.linear, self.fields = Fields(fields, 1), Fields(fields, width)
        self.deep = perceptron(fields * width, 400, 400, 400, 1)

    def forward(self, dense: Tensor, sparse: Tensor) -> Tensor:  # [batch, 13], [batch, fields] -> [batch, 1]
        every = torch.stack(self.fields(sparse), 1)  # [batch, fields, width]
        products = (every.sum(1).square() - every.square().sum(1)).sum(1, keepdim=True) / 2
        linear = torch.cat([dense, *self.linear(sparse)], 1).sum(1, keepdim=True)
        return linear + products + self.deep(every.flatten(1))


class DeepAndCross(nn.Module):
    """Wang et al., Deep & Cross Network, 2017; with `full` the matrices of DCN V2, 2021."""

    def __init__(self, fields: int, width: int, layers: int, *, full: bool) -> None:
        super().__init__()
        total = 13 + fields * width
        self.fields = Fields(fields, width)
        self.crosses = nn.ModuleList(nn.Linear(total, total if full else 1) for _ in range(layers))
        self.deep, self.output = perceptron(total, 1024, 512), nn.Linear(total + 512, 1)

    def forward(self, dense: Tensor, sparse: Tensor) -> Tensor:  # [batch, 13], [batch, fields] -> [batch, 1]
        start = torch.cat([dense, *self.fields(sparse)], 1)
        crossed = start
        for cross in self.crosses:
            crossed = start * cross(crossed) + crossed
        return self.output(torch.cat([crossed, torch.relu(self.deep(start))], 1))


class CompressedInteractions(nn.Module):
    """Lian et al., xDeepFM, 2018: products of fields with the layer before, compressed by a convolution."""

    def __init__(self, fields: int, width: int, maps: int, layers: int) -> None:
        super().__init__()
        self.fields, self.deep = Fields(fields, width), perceptron(13 + fields * width, 400, 400)
        self.layers = nn.ModuleList(nn.Conv1d(fields * (maps if i else fields), maps, 1) for i in range(layers))
        self.output = nn.Linear(maps * layers + 400, 1)

    def forward(self, dense: Tensor, sparse: Tensor) -> Tensor:  # [batch, 13], [batch, fields] -> [batch, 1]
        every = self.fields(sparse)
        start = torch.stack(every, 1)  # [batch, fields, width]
        hidden, pooled = start, [self.deep(torch.cat([dense, *every], 1))]
        for layer in self.layers:
            hidden = torch.relu(layer((start.unsqueeze(2) * hidden.unsqueeze(1)).flatten(1, 2)))  # [batch, maps, width]
            pooled.append(hidden.sum(2))
        return self.output(torch.cat(pooled, 1))


class AutoInt(nn.Module):
    """Song et al., AutoInt, 2019: fields attend to each other."""

    def __init__(self, fields: int, width: int, layers: int) -> None:
        super().__init__()
        self.fields = Fields(fields, width)
        self.layers = nn.ModuleList(Attention(width, 2) for _ in range(layers))
        self.skips = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(layers))
        self.output = nn.Linear(fields * width, 1)

    def forward(self, dense: Tensor, sparse: Tensor) -> Tensor:  # [batch, 13], [batch, fields] -> [batch, 1]
        every = torch.stack(self.fields(sparse), 1)  # [batch, fields, width]
        for layer, skip in zip(self.layers, self.skips, strict=True):
            every = torch.relu(layer(every) + skip(every))
        return self.output(every.flatten(1)) + dense.sum(1, keepdim=True)


class ExpertTasks(nn.Module):
    """Ma et al., Multi-gate Mixture-of-Experts, 2018: every task weighs shared experts; with `own` experts per task as
    well (Tang et al., Progressive Layered Extraction, 2020, one level)."""

    def __init__(self, fields: int, width: int, experts: int, tasks: int, own: int = 0) -> None:
        super().__init__()
        total = 13 + fields * width
        self.fields = Fields(fields, width)
        self.shared = nn.ModuleList(perceptron(total, 256, 128) for _ in range(experts))
        self.own = nn.ModuleList(nn.ModuleList(perceptron(total, 256, 128) for _ in range(own)) for _ in range(tasks))
        self.gates = nn.ModuleList(nn.Linear(total, experts + own) for _ in range(tasks))
        self.towers = nn.ModuleList(perceptron(128, 64, 1) for _ in range(tasks))

    def forward(self, dense: Tensor, sparse: Tensor) -> Tensor:  # [batch, 13], [batch, fields] -> [batch, tasks]
        every = torch.cat([dense, *self.fields(sparse)], 1)
        shared, results = [expert(every) for expert in self.shared], []  # [batch, 128] each
        for own, gate, tower in zip(self.own, self.gates, self.towers, strict=True):
            found = torch.stack([*shared, *(expert(every) for expert in own)], 1)  # [batch, experts, 128]
            weights = torch.softmax(gate(every), 1).unsqueeze(2)
            results.append(tower((found * weights).sum(1)))
        return torch.cat(results, 1)


class TwoTowers(nn.Module):
    """Yi et al., Sampling-Bias-Corrected Neural Modeling, 2019: users and items meet in one product per pair."""

    def __init__(self, fields: int, width: int) -> None:
        super().__init__()
        self.fields, self.half = Fields(fields, width), fields // 2
        self.user, self.item = (perceptron(self.half * width, 512, 256, 128) for _ in range(2))

    def forward(self, dense: Tensor, sparse: Tensor) -> Tensor:  # [batch, 13], [batch, fields] -> [batch, batch]
        every = self.fields(sparse)
        user, item = (torch.cat(part, 1) for part in (every[: self.half], every[self.half :]))
        sides = [nn.functional.normalize(tower(x), dim=1) for tower, x in ((self.user, user), (self.item, item))]
        return sides[0] @ sides[1].T * 20 + dense.mean()


class NeuralFiltering(nn.Module):
    """He et al., Neural Collaborative Filtering, 2017: a product and a perceptron over tables of their own."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.products, self.mixed = Fields(2, width), Fields(2, 4 * width)
        self.deep, self.output = perceptron(8 * width, 4 * width, 2 * width, width), nn.Linear(2 * width, 1)

    def forward(self, pair: Tensor) -> Tensor:  # [batch, 2] -> [batch, 1]
        user, item = self.products(pair)
        return self.output(torch.cat([user * item, self.deep(torch.cat(self.mixed(pair), 1))], 1))


class DeepInterest(nn.Module):
    """Zhou et al., Deep Interest Network, 2018: past items weighed by the candidate; with `evolving` read by a GRU
    first, step by step (Deep Interest Evolution Network, 2019)."""

    def __init__(self, width: int, *, evolving: bool) -> None:
        super().__init__()
        self.items, self.cell = nn.Embedding(ROWS, width), GruCell(width, width) if evolving else None
        self.weigh, self.output = perceptron(4 * width, 80, 40, 1), perceptron(2 * width, 200, 80, 1)

    def forward(self, history: Tensor, candidate: Tensor) -> Tensor:  # [batch, length], [batch, 1] -> [batch, 1]
        past, item = self.items(history), self.items(candidate)  # [batch, length, width], [batch, 1, width]
        if self.cell is not None:
            past = torch.stack(run(self.cell, past.unbind(1)), 1)
        asked = item.expand_as(past)
        weights = self.weigh(torch.cat([past, asked, past - asked, past * asked], 2))  # [batch, length, 1]
        return self.output(torch.cat([(weights * past).sum(1), item.squeeze(1)], 1))


class SequenceTransformer(nn.Module):
    """Kang and McAuley, Self-Attentive Sequential Recommendation, 2018: scores of every item after every step."""

    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        self.items = nn.Embedding(ROWS, width)
        parts = [(Attention(width, 2, causal=True), feed_forward(width, width, nn.ReLU)) for _ in range(layers)]
        self.blocks = nn.Sequential(*(Block(width, *pair) for pair in parts))

    def forward(self, history: Tensor) -> Tensor:  # [batch, length] -> [batch, length, items]
        return self.blocks(self.items(history)) @ self.items.weight.T
