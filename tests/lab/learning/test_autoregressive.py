"""Actions drawn op after op (REGAL, A.8), compared with the probabilities in the definition."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from lab.learning.networks import SMALL, random_policy
from lab.learning.test_forward import random_graph
from scipy.special import expit, log_softmax

from placewright.lab.learning.regal.configuration import PolicyConfiguration
from placewright.lab.learning.regal.features import Features
from placewright.lab.learning.regal.forward import Weights, logits_of
from placewright.lab.learning.regal.network import Batch, PolicyNetwork
from placewright.lab.learning.regal.policy import RegalPolicy, sample

IN_ORDER = replace(SMALL, network="autoregressive")
SHAPES = [
    IN_ORDER,
    replace(IN_ORDER, placement_levels=5, scheduling_levels=2, transfer_levels=3, num_devices=3),
    replace(IN_ORDER, elite_bias_levels=4),
]


def sure_policy(configuration: PolicyConfiguration) -> RegalPolicy:
    """Return a policy with large weights, so that earlier draws matter much."""
    policy = random_policy(configuration)
    return replace(policy, weights={name: 3 * array for name, array in policy.weights.items()})


def network_of(policy: RegalPolicy) -> PolicyNetwork:
    network = PolicyNetwork(policy.configuration)
    network.load_state_dict({name: torch.from_numpy(array) for name, array in policy.weights.items()})
    return network


def logits_in_torch(policy: RegalPolicy, graph: Features, samples: list[np.ndarray]) -> Any:
    """Return logits [samples, num ops, num logits], given the actions of each sample."""
    network = network_of(policy)
    with torch.no_grad():
        return network(network.states(Batch.of([graph])), torch.from_numpy(np.array(samples))).numpy()


def logits_by_definition(policy: RegalPolicy, graph: Features, actions: np.ndarray) -> np.ndarray:
    """Compute logits in float64, op by op: equations 6 to 11 on the op's state and the previous op's actions."""
    weights: Weights = {name: array.astype(np.float64) for name, array in policy.weights.items()}
    with torch.no_grad():
        states = network_of(policy).states(Batch.of([graph])).numpy().astype(np.float64)
    levels = policy.configuration.action_space.levels
    heard, memory = np.zeros((2, policy.configuration.width))
    before = np.zeros(sum(levels))
    found = []
    for state, taken in zip(states, actions, strict=True):
        gates = (
            weights["recurrent.weight_ih_l0"] @ np.concatenate([state, before])
            + weights["recurrent.bias_ih_l0"]
            + weights["recurrent.weight_hh_l0"] @ heard
            + weights["recurrent.bias_hh_l0"]
        )
        written, kept, new, told = np.split(gates, 4)
        memory = expit(kept) * memory + expit(written) * np.tanh(new)
        heard = expit(told) * np.tanh(memory)
        hidden = np.maximum(weights["act.hidden.weight"] @ heard + weights["act.hidden.bias"], 0)
        found.append(weights["act.out.weight"] @ hidden + weights["act.out.bias"])
        before = np.concatenate([np.eye(count)[level] for count, level in zip(levels, taken, strict=False)])
    return np.array(found)


def choices_of(configuration: PolicyConfiguration, rows: np.ndarray) -> list[np.ndarray]:
    """Return the columns of each choice that ops make for themselves, and of the elite bias."""
    return np.split(rows, np.cumsum(configuration.action_space.levels), axis=-1)


def log_probability(configuration: PolicyConfiguration, logits: np.ndarray, actions: np.ndarray) -> float:
    """Return the log probability of all actions of a graph, from logits given the actions before each op."""
    *alone, together = choices_of(configuration, logits)
    found = sum(
        log_softmax(own, axis=1)[np.arange(len(own)), actions[:, number]].sum() for number, own in enumerate(alone)
    )
    if configuration.elite_bias_levels:
        found += log_softmax(together.mean(axis=0))[actions[0, -1]]
    return float(found)


@pytest.mark.parametrize("configuration", SHAPES, ids=["paper", "more", "elite-bias"])
def test_drawn_actions_have_the_probability_that_training_takes_them_to_have(
    configuration: PolicyConfiguration,
) -> None:
    policy, graph = sure_policy(configuration), random_graph(configuration, 40, 100, 1)
    space, logits = configuration.action_space, logits_of(policy.weights, configuration, graph)
    samples = [sample(logits, space, seed) for seed in range(5)]
    for seed, actions, trained in zip(range(5), samples, logits_in_torch(policy, graph, samples), strict=True):
        expected = logits_by_definition(policy, graph, actions)
        np.testing.assert_allclose(trained, expected, atol=1e-4, rtol=1e-4)
        probability = log_probability(configuration, expected, actions)
        assert log_probability(configuration, trained, actions) == pytest.approx(probability, abs=1e-3)
        # Each level is the largest of the same logits after the seed's Gumbel noise, so it has their probability.
        noise = np.random.default_rng(seed).gumbel(size=(len(actions), sum(space.levels)))
        noisy = choices_of(configuration, expected[:, : sum(space.levels)] + noise)[:-1]
        assert [own.argmax(axis=1).tolist() for own in noisy] == actions[:, : len(noisy)].T.tolist()
