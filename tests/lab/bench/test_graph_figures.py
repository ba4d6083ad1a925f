"""The diameter that figure 6 shows, beside one from all shortest paths."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("scipy")

sys.path.append(str(Path(__file__).parents[3] / "benchmarks"))
graph_figures: Any = importlib.import_module("graph_figures")


@st.composite
def graphs(draw: st.DrawFn) -> tuple[int, list[tuple[int, int]]]:
    """Number of ops and edges, each from an op to a later one."""
    num_ops = draw(st.integers(1, 14))
    pairs = [(before, after) for after in range(num_ops) for before in range(after)]
    return num_ops, sorted(draw(st.sets(st.sampled_from(pairs)))) if pairs else []


def all_distances(num_ops: int, edges: list[tuple[int, int]]) -> list[list[float]]:
    """Floyd and Warshall, either way along an edge."""
    infinity = float("inf")
    found = [[0 if one == other else infinity for other in range(num_ops)] for one in range(num_ops)]
    for before, after in edges:
        found[before][after] = found[after][before] = 1
    for between in range(num_ops):
        for one in range(num_ops):
            for other in range(num_ops):
                found[one][other] = min(found[one][other], found[one][between] + found[between][other])
    return found


@given(graph=graphs())
def test_the_diameter_is_the_longest_shortest_path_of_the_largest_part(
    graph: tuple[int, list[tuple[int, int]]],
) -> None:
    num_ops, edges = graph
    finite = [{to: far for to, far in enumerate(row) if far < float("inf")} for row in all_distances(num_ops, edges)]
    largest = max(len(row) for row in finite)
    of_largest = {max(max(finite[op].values()) for op in row) for row in finite if len(row) == largest}
    # Of two parts of one size either may be the largest.
    assert graph_figures.diameter(num_ops, np.array(edges, np.int64).reshape(-1, 2)) in of_largest


@pytest.mark.parametrize(
    ("edges", "diameter"),
    [
        ([(0, 1), (1, 2), (2, 3), (3, 4)], 4),  # a chain
        ([(0, 1), (1, 2), (2, 3), (3, 4), (0, 4)], 2),  # a ring of five: no two are further apart than two edges
        ([(0, 1), (0, 2), (0, 3), (0, 4)], 2),  # a star
        ([(0, 1), (2, 3), (3, 4)], 2),  # the larger of two parts
    ],
)
def test_named_graphs(edges: list[tuple[int, int]], diameter: int) -> None:
    assert graph_figures.diameter(5, np.array(edges, np.int64)) == diameter
