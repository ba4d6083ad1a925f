"""Noisy copies of a graph: what may change, by how much, and what a copy depends on."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from instances import graph_of, sketch
from strategies import graphs

from placewright.graph import Graph
from placewright.lab.datasets.problem_set import noisy_copy


def timed(graph: Graph, time_ns: int) -> Graph:
    return replace(graph, ops=tuple(replace(op, time_ns=time_ns) for op in graph.ops))


def without_costs(graph: Graph) -> tuple[object, ...]:
    """All that noise must leave alone."""
    ops = tuple(replace(op, time_ns=None) for op in graph.ops)
    return ops, tuple(replace(tensor, size_bytes=0) for tensor in graph.tensors)


PAIR = timed(graph_of({"a": ("", 1000), "b": ("a", 2000)}), 10_000)


def copies_of(graph: Graph, count: int, seed: int) -> list[Graph]:
    """The first `count` copies."""
    return [noisy_copy(graph, number, seed) for number in range(1, count + 1)]


@given(graph=graphs(), seed=st.integers(0, 2**64 - 1))
def test_a_copy_keeps_the_topology_and_every_factor_within_half_and_one_and_a_half(graph: Graph, seed: int) -> None:
    copy = noisy_copy(timed(graph, 7), 1, seed)
    assert without_costs(copy) == without_costs(graph)
    for old, new in zip(graph.tensors, copy.tensors, strict=True):
        # rounded to whole bytes: 3 * 0.5 = 1.5 may become 2 or 1, but never 0
        assert min(old.size_bytes, 1) <= new.size_bytes
        assert 0.5 * old.size_bytes - 0.5 <= new.size_bytes <= 1.5 * old.size_bytes + 0.5
    assert all(3 <= (op.time_ns or 0) <= 11 for op in copy.ops)


def test_a_copy_of_one_number_is_always_the_same_and_others_differ() -> None:
    fingerprints = [copy.fingerprint for copy in copies_of(PAIR, 5, seed=3)]
    assert noisy_copy(PAIR, 2, seed=3).fingerprint == fingerprints[1]
    assert len(set(fingerprints)) == 5


def test_a_copy_depends_on_the_seed_and_on_the_graphs_name() -> None:
    first = noisy_copy(PAIR, 1, seed=3)
    other_seed = noisy_copy(PAIR, 1, seed=4)
    other_name = noisy_copy(replace(PAIR, name="other"), 1, seed=3)
    assert len({first.fingerprint, other_seed.fingerprint, other_name.fingerprint}) == 3


def test_the_factors_of_a_copy_are_uniform_and_differ_by_op_and_tensor() -> None:
    many = timed(graph_of({f"op{index}": ("", 10**6) for index in range(2000)}), 10**6)
    copy = noisy_copy(many, 1, seed=0)
    for values in ([tensor.size_bytes for tensor in copy.tensors], [op.time_ns or 0 for op in copy.ops]):
        # 2,000 draws of mean 1 and deviation 1 / sqrt(12): their mean within 5 of its deviations, 0.0065
        assert sum(values) / len(values) == pytest.approx(10**6, rel=0.0325)
        assert sum(value < 750_000 for value in values) == pytest.approx(500, abs=100)
    assert [tensor.size_bytes for tensor in copy.tensors] != [op.time_ns for op in copy.ops]


def test_an_alias_keeps_the_factor_of_the_tensor_it_aliases() -> None:
    graph = sketch("make -> base=1000000", "view~ base -> all=1000000:base", "half~ all -> half=500000:all")
    for copy in copies_of(graph, 4, seed=1):
        base, whole, half = (tensor.size_bytes for tensor in copy.tensors)
        assert base == whole != 10**6
        assert half == pytest.approx(base / 2, abs=1)


def test_nothing_stays_nothing_and_one_stays_something() -> None:
    graph = graph_of({"none": ("", 0), "one": ("", 1)})
    graph = replace(graph, ops=(replace(graph.ops[0], time_ns=0), replace(graph.ops[1], time_ns=1)))
    for copy in copies_of(graph, 30, seed=0):
        assert copy.tensors[0].size_bytes == copy.ops[0].time_ns == 0
        assert copy.tensors[1].size_bytes >= 1
        assert (copy.ops[1].time_ns or 0) >= 1


def test_a_copy_is_named_and_says_what_it_is_a_copy_of() -> None:
    copies = copies_of(replace(PAIR, metadata={"mode": "training"}), 2, seed=9)
    assert [copy.name for copy in copies] == ["tiny~1", "tiny~2"]
    assert copies[1].metadata == {"mode": "training", "copy_of": "tiny", "copy": 2, "noise_seed": 9}


def test_an_unknown_time_stays_unknown() -> None:
    copy = noisy_copy(graph_of({"a": ("", 4)}), 1, seed=0)
    assert copy.ops[0].time_ns is None
