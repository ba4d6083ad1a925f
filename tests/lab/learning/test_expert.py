"""Demonstrations that a policy imitates, as levels of its actions."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from placewright.decoder import DecoderName
from placewright.lab.datasets.problem_set import PAPER_MACHINE
from placewright.lab.datasets.synthetic import random_graph
from placewright.lab.learning.environments.guided_search import GuidedSearch
from placewright.lab.learning.regal.actions import ActionSpace, beta_parameters
from placewright.lab.learning.regal.configuration import CONFIGURATIONS
from placewright.lab.learning.regal.expert import actions_of, affinity_actions, candidate_actions, demonstrate
from placewright.lab.learning.regal.features import Context, Features, context_of
from placewright.lab.learning.regal.memory_affinity import num_memory_affinities
from placewright.lab.learning.regal.smoothed_affinity import num_smoothed_affinities
from placewright.lab.learning.regal.trainings import RegalTraining
from placewright.lab.learning.rule.policy import found_rule
from placewright.machines import load_machine
from placewright.problem import Problem
from placewright.support.errors import InputError


def features_of(to_first: list[float], position: list[float]) -> Features:
    """Return features for two devices; the last kind of affinity is to `to_first`, all others have its signs
    swapped."""
    lean = np.array([to_first, -np.array(to_first)]).T
    return Features(
        op=np.hstack(
            [
                np.zeros((len(lean), 10)),
                np.array(position)[:, None],
                *[-lean] * (num_smoothed_affinities(2) // 2 - 1),
                lean,
            ]
        ),
        edge=np.zeros((0, 3), np.float32),
        source=np.zeros(0, np.int32),
        target=np.zeros(0, np.int32),
    )


FEATURES = features_of([0.7, -0.2, 0.1], [0, 1 / 2, 1])


def test_devices_and_priorities_become_the_nearest_levels() -> None:
    space = ActionSpace(num_devices=2, placement_levels=5, scheduling_levels=17, transfer_levels=5)
    # Means of 5/6 and 1/6 are the last and the first of five levels, and 1/3 of the variance the second. Of 17 levels
    # priorities take those of means 8/18, 4.5/18 and 1/18, and least variance. Those of transfers stay uniform.
    assert affinity_actions(FEATURES, space).tolist() == [
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
    demonstrated = affinity_actions(FEATURES, space)
    assert demonstrated.shape == (3, len(space.levels) + (elite_bias > 0))
    # 0.5 (1 + (c + 1) / 5) is 0.7 for c = 1.
    assert not elite_bias or set(demonstrated[:, -1]) == {1}


def test_a_plan_becomes_levels_of_its_devices_and_order() -> None:
    space = ActionSpace(num_devices=2, placement_levels=5, scheduling_levels=17)
    # Op 2 comes first, then 0, then 1; the step between is a transfer.
    order = np.array([[2, -1], [0, 1], [0, -1], [1, -1]], np.int32)
    assert actions_of(np.array([1, 0, 0], np.int32), order, space).tolist() == [
        [0, 0, 4, 0, 4, 0],
        [4, 0, 0, 0, 0, 0],
        [4, 0, 0, 0, 7, 0],
    ]


def test_where_transfers_have_no_priorities_ops_take_all_of_theirs() -> None:
    # Means 17/18, 9/18 and 1/18 of 17 levels.
    space = ActionSpace(num_devices=2, placement_levels=0, scheduling_levels=17, decoder="lazy")
    assert affinity_actions(FEATURES, space).tolist() == [[16, 0], [8, 0], [0, 0]]


def environment_of(problem: Problem, context: Context, space: ActionSpace, rounds: int) -> GuidedSearch:
    return GuidedSearch(
        problem=problem,
        observation=context,
        decoder=space.decoder,
        reference=1.0,
        evaluations=600,
        found_before=context.objective,
        expert=partial(demonstrate, space=space, rounds=rounds),
    )


def reward_of(environment: GuidedSearch, space: ActionSpace, actions: np.ndarray, seed: int) -> float:
    proposal = space.proposal(environment.problem, actions, environment.observation.fixed_op)
    return environment.rewards([proposal], [seed])[0]


def test_rounds_of_search_make_the_demonstration_better() -> None:
    graph = random_graph(3, 1)
    times = np.array([[op.time_ns] * 2 for op in graph.ops], np.int64)
    problem = Problem(graph=graph, machine=load_machine(PAPER_MACHINE), time_ns=times, control="order")
    context = context_of(problem, 0, with_affinities=True)
    space = ActionSpace(num_devices=2, placement_levels=5, scheduling_levels=16)

    def reward(rounds: int) -> float:
        environment = environment_of(problem, context, space, rounds)
        actions = environment.demonstration.actions
        return float(np.mean([reward_of(environment, space, actions, seed) for seed in range(10, 15)]))

    assert reward(4) > 0.97 * reward(0)  # rewards are negative


def test_for_memory_every_kind_of_affinity_is_tried_weakly_and_surely() -> None:
    # Three ops; of the first kind they lean to the first, second and second device, of all others to the second.
    count = num_memory_affinities(2)
    op = np.zeros((3, 7 + count), np.float32)
    op[:, -1] = op[:, -3] = op[:, -5] = 1
    op[:, -8], op[:, -7] = [1, -1, -1], [-1, 1, 1]
    space = ActionSpace(num_devices=2, placement_levels=5, scheduling_levels=17)
    uniform, *tried = candidate_actions(replace(FEATURES, op=op), space)
    # Means of 1/2 and 1/3 of the variance are the third of five levels and the second, of 17 the ninth and the sixth.
    assert uniform.tolist() == [[2, 1, 2, 1, 8, 5]] * 3
    # The last and first of five levels are means of 5/6 and 1/6, the fourth and second of 4/6 and 2/6.
    assert tried[0].tolist() == [[3, 1, 1, 1, 8, 5], [1, 1, 3, 1, 8, 5], [1, 1, 3, 1, 8, 5]]
    assert tried[1].tolist() == [[4, 1, 0, 1, 8, 5], [0, 1, 4, 1, 8, 5], [0, 1, 4, 1, 8, 5]]
    assert [actions[0].tolist() for actions in tried[2:]] == [[1, 1, 3, 1, 8, 5], [0, 1, 4, 1, 8, 5]] * 3


@pytest.mark.parametrize(("decoder", "counts_fully"), [("paper", True), ("evict", False)])
def test_for_memory_the_best_of_what_is_tried_is_taught_and_counts_by_its_gain(
    decoder: DecoderName, counts_fully: bool
) -> None:
    graph = random_graph(3, 1)
    times = np.array([[op.time_ns] * 2 for op in graph.ops], np.int64)
    machine = load_machine(PAPER_MACHINE)
    problem = Problem(graph=graph, machine=machine, time_ns=times, control="order", objective="peak-memory")
    # A reward is then what the guided search finds, whatever that for features found.
    context = replace(context_of(problem, 0, decoder, with_affinities=True), objective=10**9)
    space = ActionSpace(num_devices=2, placement_levels=5, scheduling_levels=16, decoder=decoder)
    environment = environment_of(problem, context, space, rounds=0)
    found = [-reward_of(environment, space, actions, 0) for actions in candidate_actions(context.features, space)]
    assert -reward_of(environment, space, environment.demonstration.actions, 0) == min(found)
    # A gain of 5% over their mean counts fully.
    gain = 1 - min(found) / np.mean(found)
    assert (gain >= 0.05) == counts_fully
    assert environment.demonstration.weight == pytest.approx(min(1, gain / 0.05))


RULE = "rule-runtime-libraries"
IMITATING = RegalTraining(policy=CONFIGURATIONS["runtime-zoo-affinity"], imitation_steps=1, expert_rule=RULE)


def test_a_rule_in_the_place_of_the_expert_is_imitated_as_it_is() -> None:
    graph = random_graph(3, 1)
    times = np.array([[op.time_ns] * 2 for op in graph.ops], np.int64)
    problem = Problem(graph=graph, machine=load_machine(PAPER_MACHINE), time_ns=times, control="order")
    environment = replace(IMITATING, evaluations=401, reference_seeds=1).environment(problem, 0, "train")
    rule = found_rule(RULE)
    shown, proposed = environment.demonstration, rule.guide(problem, environment.observation, 0)
    assert shown.weight == 1
    space = IMITATING.policy.action_space
    imitated = space.proposal(problem, shown.actions, environment.observation.fixed_op)
    for parameter in ("alpha", "beta"):
        own, rules = (getattr(each, parameter)[each.row] for each in (imitated, proposed))
        assert own.tolist() == rules.tolist()


def test_a_rule_that_cannot_be_imitated_is_named() -> None:
    with pytest.raises(InputError, match=r"^there is no rule 'nonesuch'; known are rule-peak-memory-libraries, "):
        replace(IMITATING, expert_rule="nonesuch")
    with pytest.raises(InputError, match=f"^expert_rule '{RULE}' wants imitation_steps and no expert_rounds$"):
        replace(IMITATING, imitation_steps=0)
    with pytest.raises(InputError, match=f"^expert_rule '{RULE}' wants imitation_steps and no expert_rounds$"):
        replace(IMITATING, expert_rounds=2)
    with pytest.raises(InputError, match=f"^expert_rule '{RULE}' has other actions than the policy$"):
        replace(IMITATING, policy=replace(IMITATING.policy, placement_levels=4))
