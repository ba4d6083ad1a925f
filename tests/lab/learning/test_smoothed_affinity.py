"""Affinities of ops smoothed together, against means taken neighbour by neighbour."""

from __future__ import annotations

import numpy as np

from placewright.lab.learning.regal.smoothed_affinity import (
    _mean_in_time,
    _spread,
    num_smoothed_affinities,
    smoothed_affinities,
)


def test_an_op_takes_the_mean_of_its_own_and_its_neighbours() -> None:
    # 0 -> 1 -> 2: 0 becomes (4 + 1) / 2, 1 becomes (4 + 1 + 1) / 3, 2 becomes (1 + 1) / 2; 3 has no neighbour.
    values = np.array([[4.0], [1.0], [1.0], [7.0]])
    found = _spread(np.array([0, 1], np.int32), np.array([1, 2], np.int32), values, {0, 1})
    np.testing.assert_allclose(found[1], [[2.5], [2.0], [1.0], [7.0]])
    np.testing.assert_allclose(found[0], values)


def test_spreading_often_is_spreading_once_again_and_again() -> None:
    random = np.random.default_rng(0)
    ends = np.sort(random.integers(0, 30, (80, 2)), axis=1)
    values = random.random((30, 2))
    slow = values
    for _ in range(7):
        slow = np.array(
            [
                np.mean(
                    [slow[op], *(slow[b] for a, b in ends if a == op), *(slow[a] for a, b in ends if b == op)], axis=0
                )
                for op in range(30)
            ]
        )
    fast = _spread(ends[:, 0].astype(np.int32), ends[:, 1].astype(np.int32), values, {3, 7})
    np.testing.assert_allclose(fast[7], slow)


def test_a_mean_in_time_is_over_those_around() -> None:
    # In time: op 2, op 0, op 1, op 3; a window of 2 has the one before and the one after.
    found = _mean_in_time(np.array([[1.0], [2.0], [3.0], [8.0]]), np.array([0.2, 0.5, 0.1, 0.9]), 2)
    np.testing.assert_allclose(found[:, 0], [2.0, 11 / 3, 2.0, 5.0])


def test_neighbours_agree_and_chains_differ() -> None:
    # Two chains of 20 that run side by side; the one leans to the first device, with some ops that do not.
    edges = np.array([(op, op + 2) for op in range(38)], np.int32)
    chain = np.arange(40) % 2
    lean = np.where(chain == 0, 0.6, 0.4) + np.random.default_rng(0).normal(0, 0.15, 40)
    assert np.abs((lean < 0.5) - chain).sum() == 9
    together = smoothed_affinities(edges[:, 0], edges[:, 1], np.array([lean, 1 - lean]).T, np.linspace(0, 1, 40))
    assert together.shape == (40, num_smoothed_affinities(2))
    np.testing.assert_allclose([together[:, [at, at + 1]].std() for at in range(0, num_smoothed_affinities(2), 2)], 1)
    assert np.abs(together[:, -2:].argmax(axis=1) - chain).sum() <= 2


def test_without_edges_and_without_affinities_all_are_zero() -> None:
    none = np.zeros(0, np.int32)
    assert not smoothed_affinities(none, none, np.full((3, 2), 0.5), np.arange(3.0)).any()
