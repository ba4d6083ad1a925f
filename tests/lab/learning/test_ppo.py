"""Clipped proximal policy optimisation against a loop over decisions, and that it learns."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="policies are networks")

import torch

from placewright.lab.learning.algorithms.ppo import Ppo, clipped_gain, standard_advantage
from placewright.lab.learning.placers.placement_policy import Likelihood, likelihood
from placewright.support.errors import InputError


class Table(torch.nn.Module):
    """A policy of nothing but logits: a row for each decision."""

    shared_noise = 0.0

    def __init__(self, decisions: int, choices: int, seed: int = 0) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.logits = torch.nn.Parameter(torch.randn(decisions, choices, generator=generator))

    def sample(self, count: int, generator: Any) -> Any:
        chances = torch.softmax(self.logits.detach(), 1)
        return torch.multinomial(chances, count, replacement=True, generator=generator).T

    def evaluate(self, actions: Any) -> Likelihood:
        return likelihood(self.logits.expand(len(actions), -1, -1), actions)

    def devices(self, actions: Any) -> Any:
        return actions.numpy()


def test_the_clipped_gain_is_what_a_loop_over_decisions_says() -> None:
    random = np.random.default_rng(1)
    now, before, advantage = random.normal(size=(5, 7)), random.normal(size=(5, 7)), random.normal(size=5)
    expected = 0.0
    for row in range(5):
        for decision in range(7):
            ratio = math.exp(now[row, decision] - before[row, decision])
            clipped = min(max(ratio, 0.8), 1.2)
            expected += min(ratio * advantage[row], clipped * advantage[row]) / 35
    found = clipped_gain(torch.from_numpy(now), torch.from_numpy(before), torch.from_numpy(advantage), 0.2)
    assert float(found) == pytest.approx(expected)


def test_the_first_epoch_goes_where_reinforce_would_go() -> None:
    # Before anything moved all ratios are 1, so the slope is that of the mean of advantage * log probability.
    policy, actions, advantage = Table(3, 4), torch.tensor([[0, 1, 2], [3, 3, 0]]), np.array([0.5, -2.0])
    learner = Ppo(policy, learning_rate=0.0, epochs=1, entropy=0.0, max_grad_norm=1e9)
    learner.step(actions, advantage)
    found = policy.logits.grad.clone()
    policy.zero_grad()
    log = policy.evaluate(actions).log_probability
    (-(torch.from_numpy(advantage)[:, None] * log).mean()).backward()
    assert torch.allclose(found, policy.logits.grad, atol=1e-6)


def test_it_learns_what_each_decision_is_worth() -> None:
    # A placement costs 1 for each decision that is not 2: nothing costs less than all twos.
    policy, generator = Table(6, 3), torch.Generator().manual_seed(3)
    learner = Ppo(policy, learning_rate=0.1)
    for _ in range(60):
        actions = policy.sample(16, generator)
        cost = (actions != 2).sum(1).numpy().astype(float)
        learner.step(actions, standard_advantage(cost))
    assert bool((policy.logits.argmax(1) == 2).all())


def test_entropy_keeps_a_policy_from_being_sure() -> None:
    def surest(entropy: float) -> float:
        policy = Table(1, 2)
        learner = Ppo(policy, learning_rate=0.05, entropy=entropy)
        for _ in range(100):
            learner.step(torch.tensor([[0], [1]]), np.array([1.0, -1.0]))
        return float(torch.softmax(policy.logits.detach(), 1).max())

    assert surest(0.0) > 0.99
    assert surest(10.0) < 0.9


def test_equal_costs_say_nothing_and_others_stand_by_their_deviation() -> None:
    assert standard_advantage(np.full(4, 0.1)).tolist() == [0, 0, 0, 0]
    # Mean 2, deviation 1.
    assert standard_advantage(np.array([1.0, 3.0])).tolist() == [1, -1]


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_no_number_is_refused_before_anything_is_changed(value: float) -> None:
    policy = Table(2, 2)
    before = policy.logits.detach().clone()
    with pytest.raises(InputError, match="an advantage is not a finite number"):
        Ppo(policy, learning_rate=0.1).step(torch.zeros(2, 2, dtype=torch.int64), np.array([0.0, value]))
    assert torch.equal(policy.logits, before)
