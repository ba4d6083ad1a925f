"""What a policy is taught, as levels of its actions."""

from __future__ import annotations

import numpy as np
import pytest

from placewright.policies.actions import ActionSpace, beta_parameters
from placewright.policies.features import Features
from placewright.policies.leanings import NUM_KINDS
from placewright.training.teacher import taught_actions


def features_of(to_first: list[float], position: list[float]) -> Features:
    """Of two devices; all kinds of leaning but the last are to the other device."""
    lean = np.array([to_first, -np.array(to_first)]).T
    return Features(
        op=np.hstack([np.zeros((len(lean), 10)), np.array(position)[:, None], *[-lean] * (NUM_KINDS - 1), lean]),
        edge=np.zeros((0, 3), np.float32),
        source=np.zeros(0, np.int32),
        target=np.zeros(0, np.int32),
    )


FEATURES = features_of([0.7, -0.2, 0.1], [0, 1 / 2, 1])


def test_devices_and_priorities_become_the_nearest_levels() -> None:
    space = ActionSpace(num_devices=2, placement_levels=5, scheduling_levels=17, transfer_levels=5)
    # Means of 5/6 and 1/6 are the last and the first of five levels, and 1/3 of the variance the second. Of 17 levels
    # priorities take those of means 8/18, 4.5/18 and 1/18, and least variance. Those of transfers stay uniform.
    assert taught_actions(FEATURES, space).tolist() == [
        [4, 1, 0, 1, 7, 0, 2, 1],
        [0, 1, 4, 1, 4, 0, 2, 1],
        [4, 1, 0, 1, 0, 0, 2, 1],
    ]
    alpha, beta = beta_parameters(5)
    assert (alpha[2 * 5 + 1], beta[2 * 5 + 1]) == (pytest.approx(1), pytest.approx(1))


@pytest.mark.parametrize(("placement", "scheduling", "elite_bias"), [(0, 17, 0), (5, 0, 0), (5, 17, 5)])
def test_a_policy_is_taught_only_what_it_decides(placement: int, scheduling: int, elite_bias: int) -> None:
    space = ActionSpace(
        num_devices=2, placement_levels=placement, scheduling_levels=scheduling, elite_bias_levels=elite_bias
    )
    taught = taught_actions(FEATURES, space)
    assert taught.shape == (3, len(space.levels) + (elite_bias > 0))
    # 0.5 (1 + (c + 1) / 5) is 0.7 for c = 1.
    assert not elite_bias or set(taught[:, -1]) == {1}
