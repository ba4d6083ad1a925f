"""One update of a training against Adam written out, and the order of what a step does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the torch extra is not installed")

from lab.learning.networks import SMALL  # noqa: E402

from placewright.lab.learning.protocols import GradientEstimate, Samples  # noqa: E402
from placewright.lab.learning.regal.trainings import RegalTraining  # noqa: E402
from placewright.lab.learning.trainer import _step  # noqa: E402
from placewright.lab.learning.training_state import TrainingState  # noqa: E402
from placewright.lab.learning.workers import RolloutTask, Workers  # noqa: E402

#: 20 steps, over which the rate falls from 0.01 to 0; gradients longer than 2 are cut.
TRAINING = RegalTraining(policy=SMALL, steps=20, learning_rate=0.01, last_learning_rate=0.0, samples=2, max_grad_norm=2)


def estimates(state: TrainingState, *scales: float) -> list[GradientEstimate]:
    """Gradients along the same direction, of length 1 times each scale."""
    count = len(state.weights)
    along = np.full(count, 1 / np.sqrt(count), np.float32)
    return [
        GradientEstimate(gradient=scale * along, loss=0.0, rewards=(), decisions=None, expected_reward=None)
        for scale in scales
    ]


def adam(weights: np.ndarray, gradients: Sequence[np.ndarray], rates: Sequence[float]) -> np.ndarray:
    """Kingma and Ba 2015, with PyTorch's defaults, in float64."""
    first = second = np.zeros(len(weights))
    weights = weights.astype(np.float64)
    for step, (gradient, rate) in enumerate(zip(gradients, rates, strict=True), 1):
        first = 0.9 * first + 0.1 * gradient
        second = 0.999 * second + 0.001 * gradient**2
        weights = weights - rate * first / (1 - 0.9**step) / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)
    return weights


def test_an_update_is_a_step_of_adam_along_the_mean_gradient_cut_to_its_largest_norm() -> None:
    state = TrainingState(TRAINING, 0)
    before = state.weights.copy()
    # Means of 1 and 3 are 2 long, which is not cut; 2 and 10 are 6 long, and cut to 2; 0.5 and -0.1 are 0.2 long.
    norms = [state.learn(estimates(state, *scales)) for scales in ((1, 3), (2, 10), (0.5, -0.1))]
    assert norms == pytest.approx([2, 6, 0.2], rel=1e-5)
    along = estimates(state, 1)[0].gradient
    expected = adam(before, [2 * along, 2 * along, 0.2 * along], [0.01, 0.01 * 19 / 20, 0.01 * 18 / 20])
    np.testing.assert_allclose(state.weights, expected, rtol=0, atol=2e-7)
    assert (state.weights < before).all()  # Downhill: gradients are of what is to get less.


def test_passes_of_one_step_are_updates_at_its_rate_by_one_adam() -> None:
    """Exceptions: Adam begins anew at the first step, and where rewards follow an expert."""
    state = TrainingState(TRAINING, 0)
    before, along = state.weights.copy(), estimates(state, 1)[0].gradient
    for scale, ends_step in ((1, False), (0.5, False), (0.25, True), (2, True)):
        state.learn(estimates(state, scale), ends_step=ends_step)
    expected = adam(before, [1 * along, 0.5 * along, 0.25 * along, 2 * along], [0.01, 0.01, 0.01, 0.01 * 19 / 20])
    np.testing.assert_allclose(state.weights, expected, rtol=0, atol=2e-7)
    assert state.step == 2

    imitating = TrainingState(
        replace(TRAINING, policy=replace(SMALL, with_affinities=True), imitation_steps=1, imitation_learning_rate=0.01),
        0,
    )
    imitating.learn(estimates(imitating, 1))
    then = imitating.weights.copy()
    imitating.learn(estimates(imitating, 1e-3))
    np.testing.assert_allclose(
        imitating.weights, adam(then, [estimates(imitating, 1e-3)[0].gradient], [0.01]), rtol=0, atol=2e-6
    )


def test_the_best_validation_is_the_largest_and_of_equals_the_first() -> None:
    state = TrainingState(TRAINING, 0)
    assert [state.is_best(improvement) for improvement in (-3.0, 1.0, 1.0, 0.5, 2.0)] == [
        *(True, True, False, False, True)
    ]
    assert state.best == 2.0


def test_a_step_draws_once_and_learns_from_that_in_every_pass() -> None:
    """Check what each pass asks of the workers, and with which weights."""
    state = TrainingState(TRAINING, 0)
    asked: list[tuple[np.ndarray, list[RolloutTask]]] = []

    class Recording:
        def gradients(self, weights: np.ndarray, tasks: Sequence[RolloutTask]) -> list[GradientEstimate]:
            asked.append((weights.copy(), list(tasks)))
            none = np.empty((0, 0), np.float32)
            drawn = [Samples(actions=(), rewards=(float(task.graph),), log_probability=none) for task in tasks]
            found = estimates(state, *(1.0 + task.graph for task in tasks))
            return [replace(each, samples=samples) for each, samples in zip(found, drawn, strict=True)]

    tasks = [RolloutTask(graph=graph, imitates=False, seeds=(graph,)) for graph in (3, 5)]
    found, norm = _step(state, cast(Workers, cast(Any, Recording())), tasks, 3)
    assert [each.samples for each in found] == [None, None]
    assert norm == pytest.approx(5, rel=1e-5)  # The mean of 4 and 6, of both graphs.
    assert len(asked) == 3
    assert [task.samples for task in asked[0][1]] == [None, None]
    for weights, again in asked[1:]:
        assert [task.samples.rewards for task in again if task.samples] == [(3.0,), (5.0,)]
        assert not np.array_equal(weights, asked[0][0])
    assert not np.array_equal(asked[1][0], asked[2][0])
    assert state.step == 1
