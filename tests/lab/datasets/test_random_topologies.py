"""The four random graph models against what defines them."""

from __future__ import annotations

from random import Random

import pytest

from placewright.lab.datasets.random_topologies import (
    TOPOLOGIES,
    barabasi_albert,
    erdos_renyi,
    stochastic_block_model,
    watts_strogatz,
)


@pytest.mark.parametrize("name", TOPOLOGIES)
@pytest.mark.parametrize("num_nodes", [50, 113, 200])
def test_edges_join_different_nodes_and_none_repeats(name: str, num_nodes: int) -> None:
    edges = TOPOLOGIES[name](num_nodes, Random(num_nodes))
    assert all(0 <= one < num_nodes and 0 <= other < num_nodes and one != other for one, other in edges)
    assert len({frozenset(edge) for edge in edges}) == len(edges)


def test_erdos_renyi_joins_one_pair_in_twenty() -> None:
    # 200 graphs of 100 nodes have 4,950 pairs each, so 49,500 edges are expected, with a deviation of about 217.
    num_edges = sum(len(erdos_renyi(100, Random(seed))) for seed in range(200))
    assert abs(num_edges - 49_500) < 5 * 217


def test_every_node_of_barabasi_albert_but_the_first_two_joins_two_earlier_ones() -> None:
    edges = barabasi_albert(120, Random(3))
    earlier = [sorted(one for one, other in edges if other == node) for node in range(120)]
    assert earlier[:2] == [[], []]
    assert all(len(joined) == 2 and joined[1] < node for node, joined in enumerate(earlier) if node >= 2)


def test_barabasi_albert_prefers_nodes_that_have_many_neighbours() -> None:
    # The first node has 2 * 118 / 120 < 4 neighbours when all are equal; preference gives the first few many more.
    edges = barabasi_albert(200, Random(1))
    degrees = [sum(node in edge for edge in edges) for node in range(200)]
    assert max(degrees[:5]) > 12 > max(degrees[150:])


def test_watts_strogatz_keeps_two_edges_per_node_and_rewires_three_in_ten() -> None:
    num_kept = 0
    for seed in range(50):
        edges = watts_strogatz(100, Random(seed))
        assert len(edges) == 200
        num_kept += sum(min(abs(one - other), 100 - abs(one - other)) <= 2 for one, other in edges)
    # 7,000 of 10,000 edges stay; at most 4 in 98 of those that move land on a neighbour again.
    assert 6_850 < num_kept < 7_300


def test_blocks_are_dense_within_and_sparse_across() -> None:
    # 4 blocks of 25: 1,200 pairs within and 3,750 across, so 360 and 37.5 edges; over 100 graphs 36,000 and 3,750.
    within = across = 0
    for seed in range(100):
        for one, other in stochastic_block_model(100, Random(seed)):
            within += one // 25 == other // 25
            across += one // 25 != other // 25
    assert abs(within - 36_000) < 5 * 159
    assert abs(across - 3_750) < 5 * 61
