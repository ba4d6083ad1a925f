"""The undirected random graphs of REGAL's synthetic data (Paliwal et al. 2020, table 2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import combinations
from random import Random

Edge = tuple[int, int]

EDGE_PROBABILITY = 0.05
NEIGHBOURS_JOINED = 2
RING_NEIGHBOURS, REWIRE_PROBABILITY = 4, 0.3
NUM_BLOCKS, WITHIN_PROBABILITY, ACROSS_PROBABILITY = 4, 0.3, 0.01


def erdos_renyi(num_nodes: int, random: Random) -> list[Edge]:
    """Join every pair with the same probability."""
    return [pair for pair in combinations(range(num_nodes), 2) if random.random() < EDGE_PROBABILITY]


def barabasi_albert(num_nodes: int, random: Random) -> list[Edge]:
    """Join each node to two earlier ones, chosen in proportion to their degree; the first such node joins the first
    two."""
    edges: list[Edge] = []
    ends: list[int] = []
    chosen = set(range(NEIGHBOURS_JOINED))
    for node in range(NEIGHBOURS_JOINED, num_nodes):
        edges += [(other, node) for other in sorted(chosen)]
        ends += [end for other in sorted(chosen) for end in (other, node)]
        chosen = set()
        while len(chosen) < NEIGHBOURS_JOINED:
            chosen.add(random.choice(ends))
    return edges


def watts_strogatz(num_nodes: int, random: Random) -> list[Edge]:
    """Make a ring where each node is joined to its nearest four; each edge may move its far end to any node not yet
    joined."""
    edges = {
        _pair(node, (node + step) % num_nodes): None
        for step in range(1, RING_NEIGHBOURS // 2 + 1)
        for node in range(num_nodes)
    }
    for step in range(1, RING_NEIGHBOURS // 2 + 1):
        for node in range(num_nodes):
            if random.random() < REWIRE_PROBABILITY:
                strangers = [other for other in range(num_nodes) if other != node and _pair(node, other) not in edges]
                edges.pop(_pair(node, (node + step) % num_nodes), None)
                edges[_pair(node, random.choice(strangers))] = None
    return list(edges)


def stochastic_block_model(num_nodes: int, random: Random) -> list[Edge]:
    """Make four blocks of nearly equal size, dense within and sparse across."""
    return [
        (first, second)
        for first, second in combinations(range(num_nodes), 2)
        if random.random()
        < (WITHIN_PROBABILITY if _block(first, num_nodes) == _block(second, num_nodes) else ACROSS_PROBABILITY)
    ]


def _pair(one: int, other: int) -> Edge:
    return (min(one, other), max(one, other))


def _block(node: int, num_nodes: int) -> int:
    return node * NUM_BLOCKS // num_nodes


TOPOLOGIES: Mapping[str, Callable[[int, Random], list[Edge]]] = {
    "erdos-renyi": erdos_renyi,
    "barabasi-albert": barabasi_albert,
    "watts-strogatz": watts_strogatz,
    "stochastic-block": stochastic_block_model,
}
