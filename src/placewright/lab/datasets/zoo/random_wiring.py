"""Randomly wired networks (Xie et al., Exploring Randomly Wired Neural Networks for Image Recognition, ICCV 2019)."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from itertools import pairwise

import torch
from torch import Tensor, nn

from placewright.lab.datasets.zoo.layers import convolution, head

#: For each node the earlier nodes it reads.
Wiring = list[list[int]]
NODES = 32


def _directed(edges: set[tuple[int, int]]) -> Wiring:
    """Direct every edge from the lower to the higher number (section 3.2)."""
    return [sorted(min(edge) for edge in edges if max(edge) == node) for node in range(NODES)]


def erdos_renyi(seed: int, probability: float = 0.2) -> Wiring:
    """Join each pair with a probability."""
    generator = random.Random(seed)
    pairs = ((low, high) for high in range(NODES) for low in range(high))
    return _directed({pair for pair in pairs if generator.random() < probability})


def barabasi_albert(seed: int, links: int = 5) -> Wiring:
    """Join each new node to `links` others, chosen by their degree."""
    generator = random.Random(seed)
    ends = list(range(links))
    edges: set[tuple[int, int]] = set()
    for node in range(links, NODES):
        chosen: set[int] = set()
        while len(chosen) < links:
            chosen.add(generator.choice(ends))
        edges |= {(other, node) for other in chosen}
        ends += [*sorted(chosen), *[node] * links]
    return _directed(edges)


def watts_strogatz(seed: int, neighbours: int = 4, probability: float = 0.75) -> Wiring:
    """A ring in which each edge moves its far end with a probability."""
    steps = range(1, neighbours // 2 + 1)
    generator = random.Random(seed)
    edges = {tuple(sorted((node, (node + step) % NODES))) for step in steps for node in range(NODES)}
    for step in steps:
        for node in range(NODES):
            old = tuple(sorted((node, (node + step) % NODES)))
            free = [far for far in range(NODES) if far != node and tuple(sorted((node, far))) not in edges]
            if old in edges and generator.random() < probability:
                edges = edges - {old} | {tuple(sorted((node, generator.choice(free))))}
    return _directed({(low, high) for low, high in edges})


def _separable(inputs: int, outputs: int, stride: int) -> nn.Sequential:
    """ReLU, one filter per channel, projection, normalisation."""
    filters = nn.Conv2d(inputs, inputs, 3, stride, 1, groups=inputs, bias=False)
    return nn.Sequential(nn.ReLU(), filters, convolution(inputs, outputs, activation=None))


class Node(nn.Module):
    """A node that adds its inputs, weighted by learned positive numbers, and transforms the sum (section 3.2)."""

    def __init__(self, reads: int, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.zeros(reads)) if reads > 1 else None
        self.body = _separable(inputs, outputs, stride)

    def forward(self, *images: Tensor) -> Tensor:  # [batch, inputs, h, w] each -> [batch, outputs, h', w']
        if self.weights is None:
            return self.body(images[0])
        weights = self.weights.sigmoid()  # [reads]
        total = images[0] * weights[0]
        for place, image in enumerate(images[1:], 1):
            total = total + image * weights[place]
        return self.body(total)


class RandomStage(nn.Module):
    """A wiring as a network: nodes without inputs read the stage's input and halve it; the mean of unread nodes is the
    output."""

    def __init__(self, wiring: Wiring, inputs: int, outputs: int) -> None:
        super().__init__()
        self.wiring = wiring
        self.last = [node for node in range(NODES) if not any(node in reads for reads in wiring)]
        self.nodes = nn.ModuleList(
            Node(len(reads), outputs if reads else inputs, outputs, 1 if reads else 2) for reads in wiring
        )

    def forward(self, image: Tensor) -> Tensor:  # [batch, inputs, h, w] -> [batch, outputs, h / 2, w / 2]
        results: list[Tensor] = []
        for reads, node in zip(self.wiring, self.nodes, strict=True):
            results.append(node(*([results[read] for read in reads] or [image])))
        return torch.stack([results[node] for node in self.last]).mean(0)


#: By name in networks.toml.
WIRINGS: Mapping[str, Callable[[int], Wiring]] = {
    wire.__name__: wire for wire in (erdos_renyi, barabasi_albert, watts_strogatz)
}


def randwire(wiring: str, channels: int = 78) -> nn.Sequential:
    """Table 1, small regime."""
    wire = WIRINGS[wiring]
    widths = channels, channels, 2 * channels, 4 * channels
    stages = (RandomStage(wire(seed), before, after) for seed, (before, after) in enumerate(pairwise(widths), start=1))
    stem = convolution(3, channels // 2, 3, 2), _separable(channels // 2, channels, 2)
    return nn.Sequential(*stem, *stages, nn.ReLU(), convolution(4 * channels, 1280), head(1280, dropout=0.2))
