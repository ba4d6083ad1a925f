"""Affinities of ops smoothed with those that use the same memory, against loops over every op and tensor."""

from __future__ import annotations

import numpy as np
import pytest
from instances import graph_of, machine_of, problem_of, sketch

from placewright.graph import Graph, Op, Tensor
from placewright.lab.datasets.synthetic import random_graph
from placewright.lab.learning.regal.memory_affinity import (
    _KINDS,
    _TensorLifetimes,
    memory_affinities,
    num_memory_affinities,
)
from placewright.problem.lowering import Lowered


def lowered_of(graph: Graph) -> Lowered:
    return problem_of(graph, machine_of(2)).lowered


def with_parameters(groups: list[int], size: int) -> Graph:
    """A chain of ops of 1 byte each; each also reads the parameter of its group, of so many bytes."""
    count = len(groups)
    parameters = [Tensor(name=f"p{group}", size_bytes=size, role="parameter") for group in range(max(groups) + 1)]
    ops = [
        Op(
            name=f"op{index}",
            kind="other",
            inputs=(*((index - 1,) if index else ()), count + group),
            outputs=(index,),
            controls=(),
        )
        for index, group in enumerate(groups)
    ]
    made = [Tensor(name=f"t{index}", size_bytes=1) for index in range(count)]
    return Graph(name="parameters", ops=tuple(ops), tensors=(*made, *parameters))


def to_first_and_second(to_first: list[float]) -> np.ndarray:
    return np.array([to_first, 1 - np.array(to_first)]).T


def test_ops_that_share_a_parameter_agree_and_either_device_has_half() -> None:
    # Ops 0, 2, 4, ... read one parameter, the others another; the first lean to the first device, with exceptions.
    groups = [0, 1] * 8
    lean = [0.6, 0.4] * 6 + [0.3, 0.7] * 2
    found = memory_affinities(
        lowered_of(with_parameters(groups, 1000)), to_first_and_second(lean), np.linspace(0, 1, 16), None
    )
    assert found.shape == (16, num_memory_affinities(2)) == (16, 2 + 2 * len(_KINDS))
    # Parameters are alive throughout, and 2 bytes beside them at the peak.
    np.testing.assert_allclose(found[:, :2], 1000 / 2002)
    for kind in range(len(_KINDS)):
        own = found[:, 2 + 2 * kind : 4 + 2 * kind]
        assert (own.argmax(axis=1) == groups).all()
        # Of the parameters' bytes those of the other group lean less, and those of its own but one on average half.
        assert own[0::2, 0].mean() == pytest.approx(0.5, abs=0.01)


def test_the_device_of_the_fixed_ops_affinity_is_the_first() -> None:
    lowered = lowered_of(with_parameters([0, 1] * 8, 1000))
    lean, position = to_first_and_second([0.6, 0.4] * 8), np.linspace(0, 1, 16)
    free = memory_affinities(lowered, lean, position, None)
    np.testing.assert_array_equal(memory_affinities(lowered, lean, position, 0), free)
    swapped = memory_affinities(lowered, lean, position, 1)
    np.testing.assert_array_equal(swapped[:, 2::2], free[:, 3::2])
    np.testing.assert_array_equal(swapped[:, 3::2], free[:, 2::2])


def test_tensors_weigh_by_the_time_in_which_they_are_alive_near_the_peak() -> None:
    # a 4 bytes, b reads a and makes 8, c reads b and makes 2, d reads c. In use while a, b, c, d run: 4, 12, 10, 2.
    graph = graph_of({"a": ("", 4), "b": ("a", 8), "c": ("b", 2), "d": ("c", 0)})
    memory = _TensorLifetimes(lowered_of(graph), np.linspace(0, 1, 4))
    assert memory.peak == 12
    assert memory.weights(None).tolist() == [4, 8, 2, 0]
    # From 6 bytes on count b and c: a is alive in one of them, b in both, c's in one. From 11.64 on counts b alone.
    assert memory.weights(0.5).tolist() == [2, 8, 1, 0]
    assert memory.weights(0.97).tolist() == [4, 8, 0, 0]
    assert memory.heaviest(memory.weights(0.97)).tolist() == [4, 8, 8, 0]


def test_an_op_without_memory_keeps_its_affinity() -> None:
    graph = sketch("idle", "a -> a=4", "b a -> b=8")
    memory = _TensorLifetimes(lowered_of(graph), np.linspace(0, 1, 3))
    (spread,) = memory.spread(memory.weights(None), to_first_and_second([0.9, 0.2, 0.4]), [5])
    np.testing.assert_allclose(spread[0], [0.9, 0.1])


@pytest.mark.parametrize("seed", range(3))
def test_weights_and_spread_affinities_are_what_loops_say(seed: int) -> None:
    random = np.random.default_rng(seed)
    graph = random_graph(seed, 1) if seed else with_parameters(random.integers(0, 4, 30).tolist(), 50)
    lowered = lowered_of(graph)
    count, made = len(lowered.graph_op), len(lowered.producer)
    affinity, position = random.dirichlet([3, 3, 3], count), random.random(count)
    memory = _TensorLifetimes(lowered, position)

    users: list[list[int]] = [[int(op)] for op in lowered.producer] + [[] for _ in lowered.resident_bytes]
    for op in range(count):
        for tensor in lowered.inputs[lowered.input_begin[op] : lowered.input_begin[op + 1]]:
            users[tensor].append(op)
        for resident in lowered.residents[lowered.resident_begin[op] : lowered.resident_begin[op + 1]]:
            users[made + resident].append(op)
    sizes = np.concatenate([lowered.transfer_bytes, lowered.resident_bytes])
    place = np.argsort(np.argsort(position))
    lives = [
        range(min(place[own]), max(place[own]) + 1) if tensor < made else range(count)
        for tensor, own in enumerate(users)
    ]
    in_use = np.array([sum(size for size, life in zip(sizes, lives, strict=True) if at in life) for at in range(count)])
    assert memory.peak == in_use.max()
    for share in (None, 0.5, 0.97):
        counted = np.flatnonzero(in_use >= (share or 0) * in_use.max())
        alive = [1 if share is None else np.mean([at in life for at in counted]) for life in lives]
        weights = sizes * np.array(alive)
        np.testing.assert_allclose(memory.weights(share), weights)

        slow = affinity
        for _ in range(7):
            means = np.array([slow[own].mean(axis=0) if own else np.zeros(3) for own in users])
            used = [[tensor for tensor, own in enumerate(users) if op in own] for op in range(count)]
            weight = weights + 1e-9 * sizes.max() + 1e-9
            slow = np.array(
                [
                    np.average(means[own], axis=0, weights=weight[own]) if own else slow[op]
                    for op, own in enumerate(used)
                ]
            )
        np.testing.assert_allclose(memory.spread(weights, affinity, [3, 7])[1], slow, atol=1e-12)


def test_a_rank_is_the_share_of_the_bytes_of_less_affinity() -> None:
    # Of the parameter's 6 bytes ops a and b own 3 each, and of what they make 2 and 4: 5 and 7 of 12.
    graph = sketch("parameter=6", "a parameter -> a=2", "b parameter -> b=4")
    memory = _TensorLifetimes(lowered_of(graph), np.linspace(0, 1, 2))
    found = memory.rank(memory.weights(None), np.array([0.7, 0.3]))
    np.testing.assert_allclose(found, [2 * (7 + 2.5) / 12 - 1, 2 * 3.5 / 12 - 1])
