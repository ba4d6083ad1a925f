"""REINFORCE's gradient against finite differences of what it is the gradient of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from functools import partial

import numpy as np
import pytest
import torch
from instances import graph_of, machine_of, problem_of
from lab.learning.networks import SMALL, logits_given, random_actions
from scipy.special import softmax

from placewright.guide import Guide
from placewright.lab.datasets.synthetic import random_graph
from placewright.lab.learning.environments.guided_search import GuidedSearch
from placewright.lab.learning.guided import Regal
from placewright.lab.learning.learner import Learner
from placewright.lab.learning.regal.actions import ActionSpace
from placewright.lab.learning.regal.configuration import CONFIGURATIONS, Network, PolicyConfiguration
from placewright.lab.learning.regal.expert import demonstrate
from placewright.lab.learning.regal.features import context_of, guided_search
from placewright.lab.learning.regal.forward import logits_of
from placewright.lab.learning.regal.network import Batch
from placewright.lab.learning.regal.policy import RegalPolicy, sample
from placewright.lab.learning.regal.trainings import RegalTraining
from placewright.search.run.budget import Budget
from placewright.search.run.search_run import SearchRun

GRAPH = graph_of({"a": ("", 4), "b": ("a", 10), "c": ("a", 1), "d": ("b c", 3), "e": ("a", 2), "f": ("d e", 2)})
CONFIGURATION = RegalTraining(policy=SMALL, evaluations=500, samples=3)


#: Ops make a choice together in it, and all others one after the other.
IN_ORDER = replace(SMALL, network="autoregressive", elite_bias_levels=5)


def environment_of(evaluations: int = 500, policy: PolicyConfiguration = SMALL) -> GuidedSearch:
    problem = problem_of(GRAPH, machine_of(2), (3, 1, 4, 1, 5, 9), control="order")
    context = context_of(problem, 0, with_affinities=policy.with_affinities)
    return GuidedSearch(
        problem=problem,
        observation=context,
        decoder="paper",
        reference=20.0,
        evaluations=evaluations - 400,
        found_before=context.objective,
        expert=partial(demonstrate, space=policy.action_space, rounds=0),
    )


class FixedRewards(GuidedSearch):
    """Rewards by the number of the sample, that no search decides; or the seeds of the searches."""

    worth: tuple[int, ...] = (2, 5, 3)

    def rewards(self, guides: Sequence[Guide], seeds: Sequence[int]) -> list[float]:
        return [-1.0 - 0.01 * own for own in (self.worth or seeds)[: len(seeds)]]


def fixed(worth: tuple[int, ...] = FixedRewards.worth) -> GuidedSearch:
    known = environment_of()
    found = FixedRewards(**{each.name: getattr(known, each.name) for each in fields(GuidedSearch)})
    object.__setattr__(found, "worth", worth)
    return found


def learner_of(configuration: RegalTraining) -> Learner:
    """Return a learner with noise on its weights, which are no longer silent."""
    learner = Learner(configuration, 3)
    random = np.random.default_rng(3)
    learner.weights = (learner.weights + 0.2 * random.normal(size=len(learner.weights))).astype(np.float32)
    return learner


def log_probability(logits: np.ndarray, space: ActionSpace, actions: np.ndarray) -> float:
    """Sum log probabilities over choices; what ops choose together counts once, by the mean of their logits."""
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
    learner: Learner, policy: PolicyConfiguration, environment: GuidedSearch, seeds: list[int], taken: list[np.ndarray]
) -> float:
    """-mean of advantage x log probability of the actions taken, computed from numpy's forward pass in double."""
    weights = weights_of(learner)
    rewards = np.array(environment.rewards([], seeds))
    total = 0.0
    for actions, reward in zip(taken, rewards, strict=True):
        others = (rewards.sum() - reward) / (len(rewards) - 1)
        logits = logits_given(weights, policy, environment.observation.features, actions).astype(np.float64)
        total -= (reward - others) * log_probability(logits, policy.action_space, actions) / len(rewards)
    return total


def weights_of(learner: Learner) -> dict[str, np.ndarray]:
    return {name: tensor.numpy() for name, tensor in learner.network.state_dict().items()}


@pytest.mark.parametrize(
    "policy",
    [SMALL, replace(SMALL, transfer_levels=3, elite_bias_levels=5), IN_ORDER],
    ids=["paper", "more", "autoregressive"],
)
def test_the_gradient_is_that_of_the_log_probabilities_weighed_by_advantages(policy: PolicyConfiguration) -> None:
    learner, environment, seeds = learner_of(replace(CONFIGURATION, policy=policy)), fixed(), [1, 4, 2]
    weights = learner.weights.copy()
    gradient = learner.policy_gradient(environment, seeds).gradient
    logits = logits_of(weights_of(learner), policy, environment.observation.features)
    taken = [sample(logits, policy.action_space, seed) for seed in seeds]
    for direction in np.random.default_rng(0).normal(size=(5, len(weights))):
        step = 1e-3 * direction / np.linalg.norm(direction)
        losses = []
        for sign in (1, -1):
            learner.weights = (weights + sign * step).astype(np.float32)
            losses.append(loss(learner, policy, environment, seeds, taken))
        assert (losses[0] - losses[1]) / 2 == pytest.approx(float(gradient @ step), rel=0.03, abs=1e-7)


def test_one_sample_is_compared_with_what_the_value_function_expects() -> None:
    learner, environment = learner_of(replace(CONFIGURATION, samples=1)), fixed()
    estimate = learner.policy_gradient(environment, [2])
    assert list(estimate.rewards) == pytest.approx([-1.02])
    assert estimate.expected_reward is not None
    assert np.abs(estimate.gradient).max() > 1e-4
    # There is nothing to learn where the value function expects exactly the reward.
    weights = learner.weights
    last_bias = len(weights) - 1
    weights[last_bias] += np.float32(estimate.rewards[0] - estimate.expected_reward)
    learner.weights = weights
    np.testing.assert_allclose(learner.policy_gradient(environment, [2]).gradient, 0, atol=1e-5)


def test_samples_of_equal_worth_have_no_gradient() -> None:
    estimate = learner_of(CONFIGURATION).policy_gradient(fixed((2, 2)), [1, 4])
    np.testing.assert_allclose(estimate.gradient, 0, atol=1e-6)
    assert estimate.expected_reward is None


def test_samples_of_a_graph_are_judged_by_searches_with_one_seed() -> None:
    estimate = learner_of(CONFIGURATION).policy_gradient(fixed(worth=()), [7, 8, 9])
    assert list(estimate.rewards) == pytest.approx([-1.07] * 3)


@pytest.mark.parametrize("name", sorted(CONFIGURATIONS))
def test_a_policy_begins_with_all_actions_alike(name: str) -> None:
    policy = CONFIGURATIONS[name]
    learner = Learner(replace(CONFIGURATION, policy=policy), 0)
    features = replace(environment_of().observation.features, op=np.ones((6, policy.num_op_features), np.float32))
    actions = torch.from_numpy(random_actions(policy, 6)[None])
    assert not learner.network(learner.network.states(Batch.of([features])), actions).detach().numpy().any()


def test_entropy_is_of_what_an_op_may_do_given_the_actions_before() -> None:
    learner, environment = learner_of(replace(CONFIGURATION, policy=IN_ORDER)), fixed()
    logits, space = logits_of(weights_of(learner), IN_ORDER, environment.observation.features), IN_ORDER.action_space
    found = []
    for seed in [1, 4, 2]:
        given = logits_given(
            weights_of(learner), IN_ORDER, environment.observation.features, sample(logits, space, seed)
        )
        *choices, together = np.split(given, np.cumsum(space.levels), axis=1)
        each = [softmax(choice, axis=1) for choice in (*choices, together.mean(axis=0, keepdims=True))]
        found.append(sum(-(p * np.log(p)).sum(axis=1).mean() for p in each))
    assert len(set(found)) == 3
    decisions = learner.policy_gradient(environment, [1, 4, 2]).decisions
    assert decisions is not None
    assert decisions.entropy == pytest.approx(np.mean(found), rel=1e-5)


@pytest.mark.parametrize("network", ["graph", "autoregressive"])
def test_what_is_imitated_becomes_most_likely(network: Network) -> None:
    policy = replace(SMALL, with_affinities=True, update="residual", network=network)
    configuration, environment = replace(CONFIGURATION, policy=policy), environment_of(policy=policy)
    learner = Learner(configuration, 0)
    row = torch.nn.Parameter(torch.from_numpy(learner.weights))
    adam = torch.optim.Adam([row], lr=1e-2)
    losses = []
    for _ in range(300):
        learner.weights = row.detach().numpy().copy()
        estimate = learner.imitation_gradient(environment)
        row.grad = torch.from_numpy(estimate.gradient)
        adam.step()
        losses.append(estimate.loss)
    assert losses[-1] < losses[0] - 1
    assert estimate.rewards == ()
    with torch.no_grad():
        states = learner.network.states(Batch.of([environment.observation.features]))
        logits = learner.network(states, torch.from_numpy(environment.demonstration.actions[None]))[0]
    for number, choice in enumerate(logits.split(list(policy.action_space.levels), 1)):
        likely = torch.softmax(choice, 1)
        assert likely.argmax(1).tolist() == environment.demonstration.actions[:, number].tolist()


def test_what_counts_half_has_half_the_gradient() -> None:
    policy = replace(SMALL, with_affinities=True)
    environment = environment_of(policy=policy)
    learner = Learner(replace(CONFIGURATION, policy=policy), 0)
    whole = learner.imitation_gradient(environment)
    environment.__dict__["demonstration"] = replace(environment.demonstration, weight=0.5)
    half = learner.imitation_gradient(environment)
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
        torch.equal(one, two) for one, two in zip(learner.network.parameters(), other.network.parameters(), strict=True)
    )


@pytest.mark.parametrize("configuration", [SMALL, IN_ORDER], ids=["paper", "autoregressive"])
def test_a_reward_is_what_the_policy_reaches_on_the_same_graph(configuration: PolicyConfiguration) -> None:
    learner = learner_of(replace(CONFIGURATION, policy=configuration))
    environment = environment_of(policy=configuration)
    policy = RegalPolicy(name="p", configuration=configuration, weights=weights_of(learner))
    search = guided_search(environment.problem, policy.guide(environment.problem, environment.observation, 5), 5)
    search.advance(100)  # 500 less those of the features
    assert learner.reward(environment, 5) == -min(search.best_objective, environment.found_before) / 20.0


def test_a_reward_may_be_the_mean_of_short_searches_which_may_be_worse_than_the_one_for_features() -> None:
    environment = replace(environment_of(), found_before=0, searches=4)
    guide = SMALL.action_space.proposal(environment.problem, np.zeros((6, 6), np.int64), 0)
    reached = []
    for seed in range(5, 9):
        search = guided_search(environment.problem, guide, seed)
        search.advance(25)  # a quarter of 500 less those of the features
        reached.append(search.best_objective)
    assert environment.rewards([guide], [5]) == [-np.mean(reached) / 20.0]


def test_rewards_are_what_regal_reaches_where_the_best_is_kept_too() -> None:
    graph = random_graph(0, 1)
    problem = problem_of(graph, machine_of(2, transfer_model="blocking"), [op.time_ns or 0 for op in graph.ops])
    reached = []
    for warm_start in (False, True):
        configuration = replace(SMALL, decoder="lazy", warm_start=warm_start)
        learner = learner_of(replace(CONFIGURATION, policy=configuration))
        training = replace(CONFIGURATION, policy=configuration, evaluations=1000)
        environment = replace(training.environment(problem, 5, "train"), reference=1.0)
        policy = RegalPolicy(name="p", configuration=configuration, weights=weights_of(learner))
        result = Regal(policy=policy).solve(problem, SearchRun(Budget(evaluations=1000), seed=5))
        assert learner.reward(environment, 5) == -result.metrics.step_time_ns
        reached.append(result.metrics.step_time_ns)
    assert reached[0] != reached[1]


def test_the_learning_rate_falls_while_steps_imitate_and_after() -> None:
    seeing = replace(SMALL, with_affinities=True)
    configuration = replace(CONFIGURATION, policy=seeing, imitation_steps=4, steps=8, imitation_learning_rate=5e-3)
    falling = replace(configuration, learning_rate=1e-3, last_learning_rate=0.0)
    # From 5e-3 by 1e-3 in each of four steps, then from 1e-3 by 0.25e-3.
    rates = [5e-3, 4e-3, 3e-3, 2e-3, 1e-3, 0.75e-3, 0.5e-3, 0.25e-3]
    assert [falling.learning_rate_at(step) for step in range(8)] == pytest.approx(rates)
    steady = replace(configuration, learning_rate=1e-3)
    assert [steady.learning_rate_at(step) for step in (4, 7)] == [1e-3, 1e-3]
