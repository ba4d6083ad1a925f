"""Actions and the Beta distributions they stand for, against the formulas of REGAL A.6 one by one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from instances import graph_of, machine_of, problem_of
from scipy import stats

from placewright.lab.learning.regal.actions import ActionSpace, beta_parameters, uniform_proposal
from placewright.lab.learning.regal.features import fixed_op_of, heaviest_op, longest_op, op_bytes
from placewright.lab.learning.regal.policy import expected_levels, sample
from placewright.machine import Link
from placewright.support.errors import InputError

#: a reads nothing and makes 4 bytes; b and c read it.
GRAPH = graph_of({"a": ("", 4), "b": ("a", 10), "c": ("a", 1)})


@pytest.mark.parametrize("levels", [2, 3, 16, 30])
def test_levels_are_the_mean_and_the_share_of_the_most_variance(levels: int) -> None:
    alpha, beta = beta_parameters(levels)
    for mean_level in range(levels):
        for variance_level in range(levels):
            found = stats.beta(alpha[mean_level * levels + variance_level], beta[mean_level * levels + variance_level])
            mean = (mean_level + 1) / (levels + 1)
            assert found.mean() == pytest.approx(mean)
            assert found.var() == pytest.approx(mean * (1 - mean) * (variance_level + 1) / (levels + 1))


def test_every_key_has_the_distribution_its_action_stands_for() -> None:
    problem = problem_of(GRAPH, machine_of(2))
    space = ActionSpace(num_devices=2, placement_levels=2, scheduling_levels=3)
    assert space.levels == (2, 2, 2, 2, 3, 3)
    actions = np.array([[0, 1, 1, 0, 2, 1], [1, 1, 0, 0, 0, 0], [1, 0, 1, 1, 1, 2]])
    proposal = space.proposal(problem, actions, fixed_op=None)
    placed, ordered = beta_parameters(2), beta_parameters(3)
    for op in range(3):
        for choice, (alpha, beta), levels, key in (
            (0, placed, 2, 2 * op),
            (1, placed, 2, 2 * op + 1),
            (2, ordered, 3, 6 + op),
        ):
            number = actions[op, 2 * choice] * levels + actions[op, 2 * choice + 1]
            row = proposal.row[key]
            assert (proposal.alpha[row], proposal.beta[row]) == (alpha[number], beta[number])
    # The keys of transfers are uniform.
    assert {(proposal.alpha[row], proposal.beta[row]) for row in proposal.row[9:]} == {(1.0, 1.0)}


@pytest.mark.parametrize(("placement", "scheduling"), [(2, 0), (0, 16)])
def test_keys_that_a_policy_says_nothing_about_are_uniform(placement: int, scheduling: int) -> None:
    problem = problem_of(GRAPH, machine_of(2))
    space = ActionSpace(num_devices=2, placement_levels=placement, scheduling_levels=scheduling)
    proposal = space.proposal(problem, np.zeros((3, len(space.levels)), int), fixed_op=None)
    silent = proposal.row[6:] if placement else proposal.row[:6]
    spoken = proposal.row[:6] if placement else proposal.row[6:9]
    assert not silent.any()
    assert spoken.all()


@pytest.mark.parametrize(("placement", "scheduling"), [(0, 0), (1, 2), (2, 1), (2, 31), (-1, 2)])
def test_choices_that_cannot_be_are_refused(placement: int, scheduling: int) -> None:
    with pytest.raises(InputError, match=f"choices of {placement}, {scheduling}, 0 levels"):
        ActionSpace(num_devices=2, placement_levels=placement, scheduling_levels=scheduling)


def test_keys_of_transfers_have_what_was_chosen_for_the_op_that_makes_the_tensor() -> None:
    problem = problem_of(GRAPH, machine_of(2))
    space = ActionSpace(num_devices=2, placement_levels=0, scheduling_levels=0, transfer_levels=3)
    proposal = space.proposal(problem, np.array([[2, 0], [0, 1], [1, 1]]), fixed_op=None)
    assert not proposal.row[:9].any()
    alpha, beta = beta_parameters(3)
    rows = proposal.row[9:].reshape(-1, 2)
    for tensor, producer in enumerate(problem.lowered.producer):
        number = {0: 2 * 3 + 0, 1: 0 * 3 + 1, 2: 1 * 3 + 1}[int(producer)]
        for row in rows[tensor]:
            assert (proposal.alpha[row], proposal.beta[row]) == (alpha[number], beta[number])


def test_the_elite_bias_is_chosen_once_for_all_ops() -> None:
    problem = problem_of(GRAPH, machine_of(2))
    space = ActionSpace(num_devices=2, placement_levels=0, scheduling_levels=2, elite_bias_levels=5)
    assert (space.levels, space.num_logits) == ((2, 2), 9)
    found = [space.proposal(problem, np.array([[0, 1, level]] * 3), None).elite_bias for level in range(5)]
    # 0.5 (1 + (c + 1) / 5); at the last level a child would take nothing of its other parent.
    assert found == pytest.approx([0.6, 0.7, 0.8, 0.9, 1.0], abs=1e-4)
    assert found[-1] is not None
    assert found[-1] < 1
    assert space.proposal(problem, np.array([[0, 1, 0]] * 3), None).row.tolist()[6:9] == [2, 2, 2]
    with pytest.raises(InputError, match="an elite bias of 1 levels"):
        replace(space, elite_bias_levels=1)


def test_what_ops_choose_together_goes_by_their_mean() -> None:
    space = ActionSpace(num_devices=2, placement_levels=0, scheduling_levels=2, elite_bias_levels=3)
    logits = np.zeros((4, 7), np.float32)
    logits[:, 4:] = [[9, 0, 0], [9, 0, 0], [-9, 0, 0], [-9, 0, 4]]  # of mean 0, 0, 1
    drawn = np.array([sample(logits, space, seed)[:, -1] for seed in range(3000)])
    assert (drawn == drawn[:, :1]).all()
    share = np.bincount(drawn[:, 0], minlength=3) / 3000
    np.testing.assert_allclose(share, np.exp([0, 0, 1]) / np.exp([0, 0, 1]).sum(), atol=0.03)


def test_a_decoder_that_chooses_devices_has_keys_for_priorities_alone() -> None:
    problem = problem_of(GRAPH, machine_of(2))
    space = ActionSpace(num_devices=2, placement_levels=0, scheduling_levels=3, decoder="segment-fill")
    proposal = space.proposal(problem, np.array([[2, 0], [0, 1], [1, 1]]), fixed_op=None)
    assert proposal.row.tolist() == [1 + 6, 1 + 1, 1 + 4]
    assert fixed_op_of(problem, "segment-fill") is None
    with pytest.raises(InputError, match="'segment-fill' chooses devices itself"):
        replace(space, placement_levels=2)
    with pytest.raises(InputError, match="'lazy' does not read priorities of transfers"):
        replace(space, transfer_levels=2, decoder="lazy")
    with pytest.raises(InputError, match="no decoder 'lasy'; did you mean lazy"):
        replace(space, decoder="lasy")  # type: ignore[arg-type]


def test_the_fixed_op_stands_on_the_first_device_in_every_individual() -> None:
    problem = problem_of(GRAPH, machine_of(3))
    proposal = uniform_proposal(problem, 1)
    keys = np.random.default_rng(0).integers(0, 2**32, (500, problem.core.num_keys), np.uint32)
    for row in set(proposal.row[3:6].tolist()):
        for column in np.flatnonzero(proposal.row == row):
            keys[:, column] = proposal.tables.draw(int(row), np.ascontiguousarray(keys[:, column]))
    placed = [problem.core.decode(np.ascontiguousarray(k), "paper")[0] for k in keys]
    assert {int(device_of[1]) for device_of in placed} == {0}
    assert {int(device_of[0]) for device_of in placed} == {0, 1, 2}


def test_the_longest_op_is_fixed_and_for_memory_the_one_with_most() -> None:
    problem = problem_of(GRAPH, machine_of(2), (1, 2, 3))
    # a: 0 + 4, b: 4 + 10, c: 4 + 1 bytes.
    assert op_bytes(problem).tolist() == [[0, 4, 0], [4, 10, 0], [4, 1, 0]]
    assert (longest_op(problem), heaviest_op(problem)) == (2, 1)
    assert fixed_op_of(problem) == 2
    assert fixed_op_of(problem_of(GRAPH, machine_of(2), (1, 2, 3), objective="peak-memory")) == 1


def test_no_op_is_fixed_where_devices_differ() -> None:
    assert fixed_op_of(problem_of(GRAPH, machine_of(2), memory_limits_bytes=(100, 200))) is None
    slow, fast = Link(latency_ns=5), Link()
    machine = machine_of(3)
    uneven = type(machine)(
        name="uneven", devices=machine.devices, links=((fast, slow, fast), (slow, fast, fast), (fast, fast, fast))
    )
    assert fixed_op_of(problem_of(GRAPH, uneven)) is None


def test_the_expected_level_is_taken_without_chance() -> None:
    space = ActionSpace(num_devices=1, placement_levels=0, scheduling_levels=3, elite_bias_levels=2)
    likely = np.log([[0.1, 0.1, 0.8], [0.8, 0.1, 0.1], [0.45, 0.1, 0.45]])
    even = np.zeros((3, 3))
    # Of the elite bias the mean of logits counts, here 0 and 1: 1 / (1 + 1 / e) is 0.73.
    together = np.array([[0, 3], [0, 3], [0, -3]])
    found = expected_levels(np.hstack([likely, even, together]).astype(np.float32), space)
    # 0.1 + 2 * 0.8 = 1.7, 0.1 + 2 * 0.1 = 0.3 and 0.1 + 2 * 0.45 = 1.
    assert found.tolist() == [[2, 1, 1], [0, 1, 1], [1, 1, 1]]
