"""The features of REGAL A.2 on a graph small enough to do them by hand."""

from __future__ import annotations

import numpy as np
import pytest
from instances import graph_of, machine_of, problem_of

from placewright.lab.learning.regal.features import context_of, guided_search, num_op_features

#: a makes 8 bytes, b and c read them and make 2 and 4, d reads b and c; d waits for a too.
GRAPH = graph_of({"a": ("", 8), "b": ("a", 2), "c": ("a", 4), "d": ("b c", 0)}, {"c": "b", "d": "a"})
TIMES = (2, 8, 4, 1)


def test_sizes_are_divided_by_the_largest_tensor() -> None:
    op = context_of(problem_of(GRAPH, machine_of(2), TIMES, control="order"), 0).features.op
    # Inputs, outputs and workspace over 8 bytes; c has most: 8 + 4.
    assert op[:, :4].tolist() == [[0, 1, 0, 0], [1, 0.25, 0, 0], [1, 0.5, 0, 1], [0.75, 0, 0, 0]]


def test_times_are_divided_by_the_longest_op() -> None:
    op = context_of(problem_of(GRAPH, machine_of(2), TIMES, control="order"), 0).features.op
    # a precedes b, c and d (8 + 4 + 1 = 13 ns), b precedes c and d, c precedes d. b is the longest, 8 ns.
    assert (8 * op[:, 4:7]).tolist() == [[0, 13, 2], [2, 5, 8], [10, 1, 4], [14, 0, 1]]
    assert op[:, 7].tolist() == [0, 1, 0, 0]


def test_shares_and_positions_are_those_of_the_individuals() -> None:
    problem = problem_of(GRAPH, machine_of(2), TIMES, control="order")
    op = context_of(problem, 0).features.op
    assert op.shape == (4, 11) == (4, num_op_features("step-time", 2))
    np.testing.assert_allclose(op[:, 8:10].sum(axis=1), 1, rtol=1e-5)
    assert op[1, 8] == pytest.approx(1), "the longest op stands on the first device"
    # Only one order respects a, b, c, d.
    np.testing.assert_allclose(op[:, 10], [0, 1 / 3, 2 / 3, 1], rtol=1e-5)


def test_there_is_an_edge_for_each_producer_tensor_and_consumer() -> None:
    features = context_of(problem_of(GRAPH, machine_of(2), TIMES, control="order"), 0).features
    edges = sorted(zip(features.source.tolist(), features.target.tolist(), features.edge[:, :2].tolist(), strict=True))
    # Sizes over 8 bytes. That a precedes d follows from b and c, but a signal is an edge of its own.
    assert edges == [
        (0, 1, [1, 0]),
        (0, 2, [1, 0]),
        (0, 3, [0, 1]),
        (1, 2, [0, 1]),
        (1, 3, [0.25, 0]),
        (2, 3, [0.5, 0]),
    ]
    assert sorted(features.target.tolist()) == features.target.tolist()
    # Four tensors (that of d is read by nobody) and the signals of a and of b: six numbers.
    assert sorted(set((6 * features.edge[:, 2]).round().tolist())) == [0, 1, 2, 4, 5]


def test_a_control_that_is_a_tensor_is_an_edge_of_size_0() -> None:
    features = context_of(problem_of(GRAPH, machine_of(2), TIMES, control="transfer"), 0).features
    edges = sorted(zip(features.source.tolist(), features.target.tolist(), features.edge[:, :2].tolist(), strict=True))
    assert [edge for edge in edges if edge[2][1]] == [(0, 3, [0, 1]), (1, 2, [0, 1])]


def test_for_memory_there_are_no_times() -> None:
    problem = problem_of(GRAPH, machine_of(3), TIMES, objective="peak-memory")
    assert context_of(problem, 0).features.op.shape == (4, 8) == (4, num_op_features("peak-memory", 3))


def test_the_context_has_the_best_of_the_search() -> None:
    problem = problem_of(GRAPH, machine_of(2), TIMES, control="order")
    context = context_of(problem, 0)
    assert problem.core.simulate(*problem.core.decode(context.keys, "paper")).step_time_ns == context.objective
    search = guided_search(problem, None, 3)
    search.advance(5000)
    assert context.objective >= search.best_objective
