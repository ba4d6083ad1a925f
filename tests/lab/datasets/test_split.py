"""Telling topologies apart, and dealing graphs to training, validation and test."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from instances import graph_of, sketch

from placewright.graph import Graph
from placewright.lab.datasets.split import in_degrees, split_by_size


def graph_of_size(num_ops: int, name: str = "") -> Graph:
    graph = graph_of({f"op{index}": ("", 1) for index in range(num_ops)})
    return replace(graph, name=name or f"g{num_ops}")


def names(graphs: tuple[Graph, ...]) -> list[str]:
    return [graph.name for graph in graphs]


def test_an_ops_in_degree_counts_produced_tensors_once_and_control_dependencies() -> None:
    # A parameter is no dependency: 0; one tensor, read twice: 1; two tensors and a control: 3.
    graph = sketch("w=1", "a w -> a=1", "b a a -> b=1", "c a b < a")
    assert in_degrees(graph) == (0, 1, 3)


def test_neither_sizes_nor_times_nor_the_order_of_ops_make_another_topology() -> None:
    first = graph_of({"a": ("", 1), "b": ("a", 2), "c": ("", 3)})
    reordered = graph_of({"c": ("", 30), "a": ("", 10), "b": ("a", 20)})
    wider = graph_of({"a": ("", 1), "b": ("a", 2), "c": ("a", 3)})
    assert in_degrees(first) == in_degrees(reordered) != in_degrees(wider)


def test_every_five_neighbours_in_size_are_dealt_three_one_one() -> None:
    split = split_by_size([graph_of_size(size) for size in (10, 3, 8, 1, 6, 5, 4, 7, 2, 9)])
    # 1 2 3 4 5: train valid train test train; 6 7 8 9 10: train test train valid train
    assert names(split.train) == ["g1", "g3", "g5", "g6", "g8", "g10"]
    assert names(split.valid) == ["g2", "g9"]
    assert names(split.test) == ["g4", "g7"]


@given(sizes=st.lists(st.integers(1, 40), min_size=1, max_size=60))
def test_the_parts_together_are_the_set_and_their_sizes_lie_side_by_side(sizes: list[int]) -> None:
    graphs = [graph_of_size(size, f"g{index}") for index, size in enumerate(sizes)]
    split = split_by_size(graphs)
    parts = (split.train, split.valid, split.test)
    assert sorted(name for part in parts for name in names(part)) == sorted(names(tuple(graphs)))
    for part, share in zip(parts, (3, 1, 1), strict=True):
        assert abs(len(part) - share * len(graphs) / 5) <= 1
        # the k-th of a part that has one graph of every five is among the k-th five of all
        ordered = sorted(sizes)
        for place, graph in enumerate(part):
            five = place // share
            assert ordered[5 * five] <= len(graph.ops) <= ordered[min(5 * five + 4, len(ordered) - 1)]


def test_the_order_the_graphs_come_in_does_not_matter() -> None:
    graphs = [graph_of_size(3, name) for name in "hgfedcba"]
    assert split_by_size(graphs) == split_by_size(graphs[::-1])
