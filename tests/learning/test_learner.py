"""REINFORCE's gradient against finite differences of what it is the gradient of."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from instances import graph_of, machine_of, problem_of
from learning.networks import SMALL, logits_given, random_actions
from scipy.special import softmax

from placewright.datasets.synthetic import random_graph
from placewright.learning.guided import Regal
from placewright.learning.regal.actions import ActionSpace
from placewright.learning.regal.configuration import CONFIGURATIONS, Network, PolicyConfiguration
from placewright.learning.regal.features import context_of, guided_search
from placewright.learning.regal.forward import logits_of
from placewright.learning.regal.instances import Instance
from placewright.learning.regal.learner import Learner
from placewright.learning.regal.network import Batch
from placewright.learning.regal.policy import Policy, sample
from placewright.learning.regal.trainings import TrainingConfiguration
from placewright.search.budget import Budget

GRAPH = graph_of({"a": ("", 4), "b": ("a", 10), "c": ("a", 1), "d": ("b c", 3), "e": ("a", 2), "f": ("d e", 2)})
CONFIGURATION = TrainingConfiguration(policy=SMALL, evaluations=500, samples=3)


#: Ops make a choice together in it, and all others one after the other.
IN_ORDER = replace(SMALL, network="autoregressive", elite_bias_levels=5)


def instance_of(evaluations: int = 500) -> Instance:
    problem = problem_of(GRAPH, machine_of(2), (3, 1, 4, 1, 5, 9), control="order")
    return Instance(
        problem=problem,
        context=context_of(problem, 0),
        space=SMALL.action_space,
        reference=20.0,
        evaluations=evaluations,
        teacher_rounds=0,
    )


class FixedRewards(Instance):
    """Rewards that no search decides."""

    def reward(self, actions: np.ndarray, seed: int) -> float:
        return -1.0 - 0.01 * seed


def fixed() -> Instance:
    known = instance_of()
    return FixedRewards(
        problem=known.problem,
        context=known.context,
        space=known.space,
        reference=known.reference,
        evaluations=known.evaluations,
        teacher_rounds=known.teacher_rounds,
    )


def learner_of(configuration: TrainingConfiguration) -> Learner:
    """With weights that are no longer silent."""
    learner = Learner(configuration, 3)
    random = np.random.default_rng(3)
    learner.weights = (learner.weights + 0.2 * random.normal(size=len(learner.weights))).astype(np.float32)
    return learner


def log_probability(logits: np.ndarray, space: ActionSpace, actions: np.ndarray) -> float:
    """Choice by choice; what ops choose together counts once, by the mean of their logits."""
    found, begin = 0.0, 0
    for choice, levels in enumerate(space.levels):
        part = logits[:, begin : begin + levels]
        begin += levels
        log_softmax = part - np.log(np.exp(part).sum(axis=1, keepdims=True))
        found += log_softmax[np.arange(len(part)), actions[:, choice]].sum()
    if space.elite_bias_levels:
        together = logits[:, begin:].mean(axis=0)
        found += together[actions[0, -1]] - np.log(np.exp(together).sum())
    return found


def loss(
    learner: Learner, policy: PolicyConfiguration, instance: Instance, seeds: list[int], taken: list[np.ndarray]
) -> float:
    """-mean of advantage x log probability of the actions taken, computed from numpy's forward pass in double."""
    weights = weights_of(learner)
    rewards = np.array([instance.reward(taken[0], seed) for seed in seeds])
    total = 0.0
    for actions, reward in zip(taken, rewards, strict=True):
        others = (rewards.sum() - reward) / (len(rewards) - 1)
        logits = logits_given(weights, policy, instance.context.features, actions).astype(np.float64)
        total -= (reward - others) * log_probability(logits, policy.action_space, actions) / len(rewards)
    return total


def weights_of(learner: Learner) -> dict[str, np.ndarray]:
    return {name: tensor.numpy() for name, tensor in learner.policy.state_dict().items()}


@pytest.mark.parametrize(
    "policy",
    [SMALL, replace(SMALL, transfer_levels=3, elite_bias_levels=5), IN_ORDER],
    ids=["paper", "more", "autoregressive"],
)
def test_the_gradient_is_that_of_the_log_probabilities_weighed_by_advantages(policy: PolicyConfiguration) -> None:
    learner, instance, seeds = learner_of(replace(CONFIGURATION, policy=policy)), fixed(), [1, 4, 2]
    weights = learner.weights.copy()
    gradient = learner.lesson(instance, seeds).gradient
    logits = logits_of(weights_of(learner), policy, instance.context.features)
    taken = [sample(logits, policy.action_space, seed) for seed in seeds]
    for direction in np.random.default_rng(0).normal(size=(5, len(weights))):
        step = 1e-3 * direction / np.linalg.norm(direction)
        losses = []
        for sign in (1, -1):
            learner.weights = (weights + sign * step).astype(np.float32)
            losses.append(loss(learner, policy, instance, seeds, taken))
        assert (losses[0] - losses[1]) / 2 == pytest.approx(float(gradient @ step), rel=0.03, abs=1e-7)


def test_one_sample_is_compared_with_what_the_baseline_network_expects() -> None:
    learner, instance = learner_of(replace(CONFIGURATION, samples=1)), fixed()
    lesson = learner.lesson(instance, [2])
    assert lesson.rewards == (pytest.approx(-1.02),)
    assert lesson.expected is not None
    assert np.abs(lesson.gradient).max() > 1e-4
    # Where the baseline network expects the very reward there is nothing to learn.
    weights = learner.weights
    last_bias = len(weights) - 1
    weights[last_bias] += np.float32(lesson.rewards[0] - lesson.expected)
    learner.weights = weights
    np.testing.assert_allclose(learner.lesson(instance, [2]).gradient, 0, atol=1e-5)


def test_samples_of_equal_worth_teach_nothing() -> None:
    lesson = learner_of(CONFIGURATION).lesson(fixed(), [2, 2])
    np.testing.assert_allclose(lesson.gradient, 0, atol=1e-6)
    assert lesson.expected is None


@pytest.mark.parametrize("name", sorted(CONFIGURATIONS))
def test_a_policy_begins_with_all_actions_alike(name: str) -> None:
    policy = CONFIGURATIONS[name]
    learner = Learner(replace(CONFIGURATION, policy=policy), 0)
    features = replace(instance_of().context.features, op=np.ones((6, policy.num_op_features), np.float32))
    actions = torch.from_numpy(random_actions(policy, 6)[None])
    assert not learner.policy(learner.policy.states(Batch.of([features])), actions).detach().numpy().any()


def test_entropy_is_of_what_an_op_may_do_given_the_actions_before() -> None:
    learner, instance = learner_of(replace(CONFIGURATION, policy=IN_ORDER)), fixed()
    logits, space = logits_of(weights_of(learner), IN_ORDER, instance.context.features), IN_ORDER.action_space
    found = []
    for seed in [1, 4, 2]:
        given = logits_given(weights_of(learner), IN_ORDER, instance.context.features, sample(logits, space, seed))
        *choices, together = np.split(given, np.cumsum(space.levels), axis=1)
        each = [softmax(choice, axis=1) for choice in (*choices, together.mean(axis=0, keepdims=True))]
        found.append(sum(-(p * np.log(p)).sum(axis=1).mean() for p in each))
    assert len(set(found)) == 3
    assert learner.lesson(instance, [1, 4, 2]).entropy == pytest.approx(np.mean(found), rel=1e-5)


@pytest.mark.parametrize("network", ["graph", "autoregressive"])
def test_what_is_taught_becomes_most_likely(network: Network) -> None:
    policy = replace(SMALL, with_leanings=True, update="residual", network=network)
    configuration, problem = replace(CONFIGURATION, policy=policy), instance_of().problem
    instance = replace(instance_of(), space=policy.action_space, context=context_of(problem, 0, with_leanings=True))
    learner = Learner(configuration, 0)
    row = torch.nn.Parameter(torch.from_numpy(learner.weights))
    adam = torch.optim.Adam([row], lr=1e-2)
    losses = []
    for _ in range(300):
        learner.weights = row.detach().numpy().copy()
        lesson = learner.imitation(instance)
        row.grad = torch.from_numpy(lesson.gradient)
        adam.step()
        losses.append(lesson.loss)
    assert losses[-1] < losses[0] - 1
    assert lesson.rewards == ()
    with torch.no_grad():
        states = learner.policy.states(Batch.of([instance.context.features]))
        logits = learner.policy(states, torch.from_numpy(instance.taught.actions[None]))[0]
    for number, choice in enumerate(logits.split(list(policy.action_space.levels), 1)):
        likely = torch.softmax(choice, 1)
        assert likely.argmax(1).tolist() == instance.taught.actions[:, number].tolist()


def test_what_counts_half_has_half_the_gradient() -> None:
    policy, problem = replace(SMALL, with_leanings=True), instance_of().problem
    instance = replace(instance_of(), space=policy.action_space, context=context_of(problem, 0, with_leanings=True))
    learner = Learner(replace(CONFIGURATION, policy=policy), 0)
    whole = learner.imitation(instance)
    instance.__dict__["taught"] = replace(instance.taught, weight=0.5)
    half = learner.imitation(instance)
    assert half.loss == pytest.approx(whole.loss / 2)
    np.testing.assert_allclose(half.gradient, whole.gradient / 2, rtol=1e-4, atol=1e-7)


def test_weights_are_one_row_and_come_back_equal() -> None:
    learner = Learner(CONFIGURATION, 3)
    row = learner.weights
    other = Learner(CONFIGURATION, 4)
    assert not np.array_equal(other.weights, row)
    other.weights = row
    assert np.array_equal(other.weights, row)
    assert all(
        torch.equal(one, two) for one, two in zip(learner.policy.parameters(), other.policy.parameters(), strict=True)
    )


@pytest.mark.parametrize("configuration", [SMALL, IN_ORDER], ids=["paper", "autoregressive"])
def test_a_reward_is_what_the_policy_reaches_on_the_same_graph(configuration: PolicyConfiguration) -> None:
    learner = learner_of(replace(CONFIGURATION, policy=configuration))
    instance = replace(instance_of(), space=configuration.action_space)
    policy = Policy(name="p", configuration=configuration, weights=weights_of(learner))
    search = guided_search(instance.problem, policy.propose(instance.problem, instance.context, 5), 5)
    search.advance(100)  # 500 less those of the features
    assert learner.reward(instance, 5) == -min(search.best_objective, instance.context.objective) / 20.0


def test_rewards_are_what_regal_reaches_where_the_best_is_kept_too() -> None:
    graph = random_graph(0, 1)
    problem = problem_of(graph, machine_of(2, transfer_model="blocking"), [op.time_ns or 0 for op in graph.ops])
    reached = []
    for keeps_best in (False, True):
        configuration = replace(SMALL, decoder="lazy", keeps_best=keeps_best)
        learner = learner_of(replace(CONFIGURATION, policy=configuration))
        instance = Instance(
            problem=problem,
            context=context_of(problem, 5, "lazy"),
            space=configuration.action_space,
            keeps_best=keeps_best,
            reference=1.0,
            evaluations=1000,
            teacher_rounds=0,
        )
        policy = Policy(name="p", configuration=configuration, weights=weights_of(learner))
        result = Regal(policy=policy).solve(problem, Budget(evaluations=1000), 5)
        assert learner.reward(instance, 5) == -result.metrics.step_time_ns
        reached.append(result.metrics.step_time_ns)
    assert reached[0] != reached[1]


def test_the_learning_rate_falls_while_taught_and_after() -> None:
    taught = replace(SMALL, with_leanings=True)
    configuration = replace(CONFIGURATION, policy=taught, taught_steps=4, steps=8, taught_learning_rate=5e-3)
    falling = replace(configuration, learning_rate=1e-3, last_learning_rate=0.0)
    # From 5e-3 by 1e-3 in each of four steps, then from 1e-3 by 0.25e-3.
    rates = [5e-3, 4e-3, 3e-3, 2e-3, 1e-3, 0.75e-3, 0.5e-3, 0.25e-3]
    assert [falling.learning_rate_at(step) for step in range(8)] == pytest.approx(rates)
    steady = replace(configuration, learning_rate=1e-3)
    assert [steady.learning_rate_at(step) for step in (4, 7)] == [1e-3, 1e-3]


@pytest.mark.parametrize(
    "wrong",
    [
        {"steps": 0},
        {"taught_steps": 3},
        {"teacher_rounds": -1},
        {"teacher_rounds": 2},
        {"batch": 0},
        {"samples": 0},
        {"evaluations": 400},
        {"learning_rate": 0.0},
        {"taught_learning_rate": -1.0},
        {"largest_norm": -1.0},
    ],
)
def test_settings_that_cannot_be_are_refused(wrong: dict[str, int]) -> None:
    from placewright.support.errors import InputError

    with pytest.raises(InputError):
        replace(CONFIGURATION, **wrong)
