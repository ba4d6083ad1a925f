"""Verdicts on whether a training learns: what they look at, and what stops a training."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

torch = pytest.importorskip("torch", reason="the torch extra is not installed")

from placewright.lab.learning.decisions import Decisions, decisions_of, mean_decisions  # noqa: E402
from placewright.lab.learning.gain import DrawnRewards, Gain  # noqa: E402
from placewright.lab.learning.regal.configuration import CONFIGURATIONS  # noqa: E402
from placewright.lab.learning.regal.features import Features  # noqa: E402
from placewright.lab.learning.regal.network import ValueNetwork  # noqa: E402
from placewright.lab.learning.verdict import LINES, reason_to_stop, verdict_on, what_was_learned  # noqa: E402


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
    # If only one op is left that decides, it has no other to differ from.
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
    expected = {"stopped": "x", "entropy": 3.0, "variation": 0.3, "gain": 0.1, "gain_error": 0.02}
    assert what_was_learned(told, "x", 1, Gain(reward=0.1, error=0.02)) == expected
    assert what_was_learned([], None, 1, None) == {"stopped": None}


def test_a_gain_is_of_the_last_tenth_over_the_first_on_the_same_graphs() -> None:
    # Of 20 steps the first two and the last two count. Graphs 0 and 2 are drawn in both tenths and gain 1 and 3; graph
    # 5 is new at the end. With a copy of each, graphs 0 and 2 are two topologies: 2 +- 12.7 * 1.
    drawn = DrawnRewards(first_step=0, steps=20, copies=1)
    for step, graphs, rewards in (
        (0, [0, 2], [(-5.0, -7.0), (-8.0,)]),
        (7, [0, 2], [(9.0,), (9.0,)]),
        (18, [0, 5], [(-5.0,), (0.0,)]),
        (19, [2, 2], [(-4.0,), (-6.0,)]),
    ):
        drawn.add(step, graphs, rewards)
    gain = drawn.gain()
    assert gain is not None
    assert gain.reward == pytest.approx(2)
    assert gain.error == pytest.approx(12.7062)
    again = DrawnRewards(first_step=0, steps=20, copies=1)
    again.restore(drawn.state())
    assert again.gain() == gain
    assert DrawnRewards(first_step=0, steps=20, copies=1).gain() is None


def test_steps_that_imitate_are_no_part_of_a_gain() -> None:
    drawn = DrawnRewards(first_step=10, steps=30, copies=0)
    drawn.add(0, [1, 2], [(), ()])
    drawn.add(10, [1, 2], [(-1.0,), (-1.0,)])
    drawn.add(29, [1, 2], [(-0.5,), (-0.5,)])
    assert drawn.gain() == Gain(reward=0.5, error=0.0)


def drawn_by(rewards: Callable[[int, NDArray[np.int64], np.random.Generator], NDArray[Any]], seed: int) -> Gain:
    """Return the gain of 200 steps on four of twenty graphs each; graphs differ by far more than is learned."""
    random = np.random.default_rng(seed)
    drawn = DrawnRewards(first_step=0, steps=200, copies=0)
    for step in range(200):
        graphs = random.integers(20, size=4)
        drawn.add(step, graphs.tolist(), [(reward,) for reward in rewards(step, graphs, random).tolist()])
    gain = drawn.gain()
    assert gain is not None
    return gain


@pytest.mark.parametrize("seed", range(3))
def test_noise_and_constants_show_no_gain_and_what_learns_does(seed: int) -> None:
    of_noise = drawn_by(lambda _, graphs, random: -1 - 0.1 * graphs + random.normal(0, 0.01, 4), seed)
    constant = drawn_by(lambda _, graphs, random: -1 - 0.1 * graphs, seed)
    learning = drawn_by(lambda step, graphs, random: -1 - 0.1 * graphs + 1e-4 * step + random.normal(0, 0.01, 4), seed)
    verdicts = [
        verdict_on(what_was_learned(lines(entropy=1.0, variation=0.2), None, LINES, gain))
        for gain in (of_noise, constant, learning)
    ]
    assert verdicts == ["no gain shown", "no gain shown", ""]


@pytest.mark.parametrize("variation", [0.0, 0.3])
def test_a_training_that_was_stopped_has_failed_whatever_its_variation(variation: float) -> None:
    exploded = lines(logit_rms=300.0, variation=variation)
    learned = what_was_learned(exploded, reason_to_stop(exploded), LINES, Gain(reward=0.1, error=0.01))
    assert verdict_on(learned) == "learned nothing"


def test_lines_without_numbers_that_earlier_versions_wrote_stop_nothing() -> None:
    assert reason_to_stop(lines(entropy=np.nan, logit_rms=np.inf)) is None


@pytest.mark.parametrize("name", ["peak-memory-zoo", "runtime-synthetic"])
def test_a_value_function_begins_at_the_reward_of_the_search_without_guidance(name: str) -> None:
    torch.manual_seed(0)
    configuration = replace(CONFIGURATIONS[name], rounds=1)
    ops = np.arange(6, dtype=np.int32)
    op = np.zeros((6, configuration.num_op_features), np.float32)
    op[:, :2] = [[0, 1], [1, 0], [0, 0], [1, 0], [0, 0], [1, 0]]
    features = Features(op=op, edge=np.zeros((5, 3), np.float32), source=ops[:-1], target=ops[1:])
    value = ValueNetwork(configuration)(SimpleNamespace(features=features))
    assert float(value) == pytest.approx(-1.0, abs=0.3)
