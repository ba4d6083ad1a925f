"""What a policy is taught: placements in which neighbours agree, as levels of its actions."""

from __future__ import annotations

import numpy as np
import pytest

from placewright.policies.actions import ActionSpace, beta_parameters
from placewright.policies.features import Features
from placewright.training.teacher import actions_of, coherent_placement, spread_along_edges, taught_actions


def features_of(edges: list[tuple[int, int]], to_first: list[float], position: list[float] | None = None) -> Features:
    """Of two devices: the share of individuals that have each op on the first."""
    edges = sorted(edges, key=lambda edge: edge[1])
    share = np.array(to_first, np.float32)
    last = np.linspace(0, 1, len(share)) if position is None else position
    return Features(
        op=np.column_stack([np.zeros((len(share), 8)), share, 1 - share, last]).astype(np.float32),
        edge=np.zeros((len(edges), 3), np.float32),
        source=np.array([source for source, _ in edges], np.int32),
        target=np.array([target for _, target in edges], np.int32),
    )


def test_an_op_takes_the_mean_of_its_own_and_its_neighbours() -> None:
    # 0 -> 1 -> 2: 0 becomes (4 + 1) / 2, 1 becomes (4 + 1 + 1) / 3, 2 becomes (1 + 1) / 2.
    features = features_of([(0, 1), (1, 2)], [0.5, 0.5, 0.5])
    found = spread_along_edges(features, np.array([[4.0], [1.0], [1.0]]), 1)
    np.testing.assert_allclose(found, [[2.5], [2.0], [1.0]])
    np.testing.assert_allclose(spread_along_edges(features, found, 0), found)


def test_neighbours_stand_together_and_chains_apart() -> None:
    # Two chains of 20 that run side by side; the one leans to the first device, with some ops that do not.
    edges = [(op, op + 2) for op in range(38)]
    chain = np.arange(40) % 2
    lean = np.where(chain == 0, 0.6, 0.4) + np.random.default_rng(0).normal(0, 0.15, 40)
    alone = (lean < 0.5).astype(int)
    features = features_of([*edges, (0, 1)], lean.tolist())

    def cut(device_of: np.ndarray) -> int:
        return sum(device_of[source] != device_of[target] for source, target in edges)

    assert (np.abs(alone - chain).sum(), cut(alone)) == (9, 13)
    assert coherent_placement(features, 2, 8, 10).tolist() == chain.tolist()
    assert cut(coherent_placement(features, 2, 20, None)) < 5


def test_devices_and_priorities_become_the_nearest_levels() -> None:
    space = ActionSpace(num_devices=2, placement_levels=5, scheduling_levels=17, transfer_levels=5)
    actions = actions_of(space, np.array([0, 1]), np.array([[1 / 2, 1 / 3], [1 / 18, 1 / 6]]))
    # Means 5/6 and 1/6 of five levels are the last and the first; 1/3 of the variance is the second.
    assert actions.tolist() == [[4, 1, 0, 1, 8, 5, 2, 1], [0, 1, 4, 1, 0, 2, 2, 1]]
    alpha, beta = beta_parameters(5)
    assert (alpha[2 * 5 + 1], beta[2 * 5 + 1]) == (pytest.approx(1), pytest.approx(1))  # uniform


def test_of_all_proposals_that_of_most_worth_is_taught() -> None:
    space = ActionSpace(num_devices=2, placement_levels=5, scheduling_levels=17)
    features = features_of([(0, 1), (1, 2), (2, 3)], [0.9, 0.8, 0.2, 0.1])

    def likes_low_priorities_and_open_devices(actions: np.ndarray, seed: int) -> float:
        return -float(np.abs(actions[:, 0] - 2).sum() + np.abs(actions[:, 4] - 4).sum())

    taught = taught_actions(features, space, likes_low_priorities_and_open_devices)
    assert taught.tolist() == [[2, 1, 2, 1, 4, 0]] * 4


@pytest.mark.parametrize(("placement", "scheduling"), [(0, 17), (5, 0)])
def test_a_policy_is_taught_only_what_it_decides(placement: int, scheduling: int) -> None:
    space = ActionSpace(num_devices=2, placement_levels=placement, scheduling_levels=scheduling)
    features = features_of([(0, 1), (1, 2), (2, 3)], [0.9, 0.8, 0.2, 0.1])
    assert taught_actions(features, space, lambda actions, seed: float(actions.sum())).shape == (4, len(space.levels))
