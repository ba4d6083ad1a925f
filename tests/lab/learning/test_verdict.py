"""Whether a training learns: what is looked at, what stops it, and toys that a learner must master."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the torch extra is not installed")

from placewright.lab.learning.algorithms.reinforce import Reinforce  # noqa: E402
from placewright.lab.learning.decisions import Decisions, decisions_of, mean_decisions  # noqa: E402
from placewright.lab.learning.regal.configuration import CONFIGURATIONS, PolicyConfiguration  # noqa: E402
from placewright.lab.learning.regal.features import Features  # noqa: E402
from placewright.lab.learning.regal.network import PolicyNetwork, ValueNetwork  # noqa: E402
from placewright.lab.learning.verdict import LINES, reason_to_stop, what_was_learned  # noqa: E402


def test_decisions_vary_by_the_distance_from_their_mean() -> None:
    # Two ops, sure of other levels: their mean is 1/2, 1/2, and each is 1/2 away. Beside it a choice that both make
    # alike, 0 away; the mean over choices is 1/4. Entropy: 0 and log 2.
    sure = torch.log_softmax(torch.tensor([[50.0, 0.0], [0.0, 50.0]]), 1)
    alike = torch.log_softmax(torch.zeros(2, 2), 1)
    found = decisions_of([sure, alike], states=torch.tensor([[3.0, 4.0]]))
    assert found.variation == pytest.approx(0.25)
    assert found.entropy == pytest.approx(np.log(2))
    assert found.state_rms == pytest.approx(np.sqrt(12.5))
    assert found.logit_rms is None
    both = mean_decisions([found, Decisions(entropy=0.0, variation=0.75)])
    assert both.variation == pytest.approx(0.5)
    assert both.state_rms is None
    # One graph with a single op to decide about takes nothing from what the others say.
    assert mean_decisions([found, Decisions(entropy=0.0)]).variation == pytest.approx(0.25)
    assert mean_decisions([Decisions(entropy=0.0)]).variation is None


def test_levels_that_an_op_may_not_take_and_ops_without_a_choice_do_not_count() -> None:
    # The first op may take one level: it decides nothing. The others, of two and of three levels, differ from their
    # mean, 5/12, 5/12, 1/6, by 1/6 each; their entropies are log 2 and log 3.
    none = -torch.inf
    logits = torch.tensor([[0.0, none, none], [2.0, 2.0, none], [2.0, 2.0, 2.0]])
    found = decisions_of([torch.log_softmax(logits, 1)], logits=logits)
    assert found.entropy == pytest.approx((np.log(2) + np.log(3)) / 2)
    assert found.variation == pytest.approx(1 / 6)
    assert found.logit_rms == pytest.approx(2)
    # Where only one op is left that decides, there is nothing to differ from.
    assert decisions_of([torch.log_softmax(logits[:2], 1)]).variation is None
    assert decisions_of([torch.log_softmax(logits[:1], 1)]).entropy == 0


def lines(**values: float) -> list[dict[str, Any]]:
    """A training that begins undecided, and then has these values."""
    first = {"step": 0, "entropy": 4.0, "variation": 0.0, "state_rms": 0.3, "logit_rms": 0.0, "reward": -1.0}
    return [first, *({**first, "step": step, **values} for step in range(1, LINES + 1))]


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"entropy": 1.0, "variation": 0.2}, None),
        ({"entropy": 3.0}, None),  # nothing is decided yet
        ({"entropy": 1.0}, "it decides alike for every op: their decisions differ by 0 of 1"),
        ({"state_rms": 2e5, "logit_rms": 1e4}, "its logits have grown to 1e+04"),
        ({"state_rms": 5e5, "logit_rms": 0.2, "variation": 0.05}, None),  # scaled before actions are made of them
        ({"logit_rms": 50.0, "variation": 0.3}, "have grown to 50"),
    ],
)
def test_a_training_that_cannot_learn_any_more_is_stopped(values: dict[str, float], reason: str | None) -> None:
    found = reason_to_stop(lines(**values))
    assert (found is None) == (reason is None)
    assert (reason or "") in (found or "")
    assert reason_to_stop(lines(**values)[:LINES]) is None  # once or twice may be chance


def test_what_was_learned_is_told_of_the_policy_that_is_kept() -> None:
    told = [
        {"step": 0, "entropy": 4.0, "variation": 0.0, "reward": -1.0},
        {"step": 1, "improvement": 3.0},
        {"step": 2, "entropy": 3.0, "variation": 0.3, "reward": -0.9},
        {"step": 3, "entropy": 0.1, "variation": 0.01, "reward": -0.95},
    ]
    expected = {"stopped": "x", "entropy": 3.0, "variation": 0.3, "first_reward": -1.0, "last_reward": -0.95}
    assert what_was_learned(told, "x", 1) == expected
    assert what_was_learned([], None, 1) == {"stopped": None}


def test_lines_without_numbers_that_earlier_versions_wrote_stop_nothing() -> None:
    assert reason_to_stop(lines(entropy=np.nan, logit_rms=np.inf)) is None


@pytest.mark.parametrize("name", ["peak-memory-zoo", "runtime-synthetic"])
def test_a_value_function_begins_at_the_reward_of_the_search_without_guidance(name: str) -> None:
    torch.manual_seed(0)
    configuration = replace(CONFIGURATIONS[name], rounds=1)
    value = ValueNetwork(configuration)(observation(chain(6, 1, 0), configuration))
    assert float(value) == pytest.approx(-1.0, abs=0.3)


def chain(size: int, hops: int, seed: int) -> tuple[Features, np.ndarray]:
    """Ops in a row, and the level that each should choose: 1 where the op so many before it is marked."""
    marked = np.random.default_rng(seed).integers(2, size=size)
    ops = np.arange(size, dtype=np.int32)
    op = np.zeros((size, 2), np.float32)
    op[:, 0] = marked
    op[:, 1] = ops < hops  # they have no such op, and choose 0
    edge = np.zeros((size - 1, 3), np.float32)
    right = np.concatenate([np.zeros(hops, np.int64), marked[: size - hops]])
    return Features(op=op, edge=edge, source=ops[:-1], target=ops[1:]), right


def observation(made: tuple[Features, np.ndarray], configuration: PolicyConfiguration) -> Any:
    features, right = made
    op = np.zeros((len(features.op), configuration.num_op_features), np.float32)
    op[:, :2] = features.op
    return SimpleNamespace(features=replace(features, op=op), right=right)


class Guessing:
    """An environment whose reward is minus the share of ops that chose wrongly."""

    problem = None

    def __init__(self, observation: Any) -> None:
        self.observation = observation

    def rewards(self, guides: Sequence[Any], seeds: Sequence[int]) -> list[float]:
        return [-float((guide[:, 0] != self.observation.right).mean()) for guide in guides]


class Network(PolicyNetwork):
    def guide(self, problem: Any, observation: Any, actions: Any) -> Any:
        return actions


@pytest.mark.parametrize("hops", [1, 2])
def test_a_graph_network_learns_what_an_op_so_many_edges_away_says(hops: int) -> None:
    assert share_right(hops, rounds=hops) > 0.95


def test_without_messages_an_op_knows_nothing_of_its_neighbours() -> None:
    assert share_right(1, rounds=0) < 0.65  # half of them by chance


def share_right(hops: int, rounds: int) -> float:
    """On unseen chains, after some steps of REINFORCE."""
    torch.manual_seed(1)
    configuration = PolicyConfiguration(
        objective="step-time",
        rounds=rounds,
        width=16,
        update="gru",
        aggregation="mean",
        placement_levels=2,
        scheduling_levels=0,
        normalisation="graph",
    )
    network = Network(configuration)
    learner = Reinforce(network=network, networks=network)
    adam = torch.optim.Adam(network.parameters(), lr=1e-2)
    for step in range(150):
        environment = Guessing(observation(chain(32, hops, step), configuration))
        found = learner.gradient(environment, range(16 * step, 16 * step + 16))  # type: ignore[arg-type]
        start = 0
        for weight in network.parameters():
            weight.grad = torch.from_numpy(found.gradient[start : start + weight.numel()]).reshape(weight.shape)
            start += weight.numel()
        adam.step()
    right = []
    for seed in range(1000, 1010):
        unseen = observation(chain(32, hops, seed), configuration)
        actions = network.distribution(unseen).choose(0)
        right.append((actions[:, 0] == unseen.right).mean())
    return float(np.mean(right))
