"""Learned placers: gradients against finite differences, rules of their rewards, and that they learn."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from instances import graph_of, machine_of, problem_of
from lab.learning.placer_cases import columns, solved

from placewright.lab.learning.environments.first_come import FAILING_SIGNAL, FirstComeEnvironment
from placewright.lab.learning.placers.colocation import units_of
from placewright.lab.learning.placers.colocrl import ColocRl
from placewright.lab.learning.placers.controls import AnnealedPlacement, EvolvedPlacement, RandomPlacement
from placewright.lab.learning.placers.hdp import Hdp
from placewright.lab.learning.placers.placeto import Placeto
from placewright.lab.learning.placers.post import Post, ppo_gradient, sample, softmax
from placewright.lab.learning.placers.spotlight import Spotlight
from placewright.search.run.budget import Budget
from placewright.search.run.search_run import SearchRun
from placewright.support.errors import InputError

torch = pytest.importorskip("torch", reason="learned placers have networks")


def test_post_learns_to_keep_chains_together_and_to_share_them_out() -> None:
    # 300 ns on one device, 150 at best on two; a chain that is cut waits 100 ns for its tensor. The best of 600 random
    # placements takes 230.
    problem = columns(10, 100)
    at_random = np.random.default_rng(0).integers(0, 2, (600, 30)).astype(np.int32)
    assert FirstComeEnvironment(problem).measure(at_random).objective.min() == 230
    assert solved(Post(colocation=()), problem, 600) <= 180


def test_the_state_of_pytorch_stays_as_it_was() -> None:
    before, threads = torch.get_rng_state(), torch.get_num_threads()
    solved(ColocRl(hidden=4, samples=3), columns(3), 12)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.get_num_threads() == threads


def test_one_device_and_one_group_need_no_learning() -> None:
    graph = graph_of({"a": ("", 4), "b": ("a", 4)})
    alone = Post().solve(problem_of(graph, machine_of(1), 10), SearchRun(Budget(evaluations=100)))
    assert alone.stopped_because == "complete"
    assert alone.evaluations == 2
    assert alone.found_by == "post: one device"


def test_where_nothing_runs_nothing_breaks_and_the_least_bad_is_kept() -> None:
    # No device may hold the 4 bytes that an op makes: every placement fails, and after the cut-off nothing is learned.
    problem = columns(3, memory_limits_bytes=(1, 1))
    small: Any = {"hidden": 4, "samples": 3}
    learners = (Post(), ColocRl(**small, cut_off=2), Hdp(**small, cut_off=2), Spotlight(**small), Placeto(**small))
    for method in (*learners, RandomPlacement(), EvolvedPlacement(), AnnealedPlacement()):
        result = method.solve(problem, SearchRun(Budget(evaluations=40), seed=1))
        assert result.metrics.bytes_over_limit > 0
        assert result.evaluations == 40


def test_noise_and_failures_change_what_is_learned_but_not_what_is_kept() -> None:
    method = replace(Post(), noise=0.5, failures=0.3)
    result = method.solve(columns(3), SearchRun(Budget(evaluations=60), seed=1))
    assert result.configuration["noise"] == 0.5
    assert result.metrics.bytes_over_limit == 0


def test_annealing_shares_the_chains_out() -> None:
    # As above: the best of 600 random placements takes 230 ns, one device 300, and 150 is the least there is.
    problem = columns(10, 100)
    assert solved(AnnealedPlacement(colocation=()), problem, 600) <= 180
    assert solved(RandomPlacement(colocation=()), problem, 600) > 200


def test_evolution_shares_the_chains_out() -> None:
    # As above; no better than annealing, which moves runs of ops, but better than what is drawn at random.
    assert solved(EvolvedPlacement(colocation=()), columns(10, 100), 1500) < 200


def test_the_best_live_on_in_a_generation_and_children_have_the_keys_of_two_parents() -> None:
    method = EvolvedPlacement(population=6, elites=2, mutants=1)
    keys = np.arange(6.0)[:, None, None] * np.ones((6, 4, 2))
    children = method._children(keys, np.random.default_rng(0))
    assert children.shape == (3, 4, 2)
    for child in children:
        assert len(set(child.ravel()) & {0, 1}) == 1
        assert len(set(child.ravel()) & {2, 3, 4, 5}) <= 1


def test_post_refits_to_the_best_placements_that_ran_and_to_none_where_none_did() -> None:
    # Of 10 placements of one unit the two that ran chose device 1, and a half is the best share: 0.5 x 1 + 0.5 x 0.5.
    post, even = Post(elite=0.5), np.zeros((1, 2))
    devices = np.array([[0]] * 8 + [[1]] * 2)
    cost = np.array([FAILING_SIGNAL] * 8 + [1.2, 1.4])
    np.testing.assert_allclose(softmax(post._refitted(even, devices, cost)), [[0.25, 0.75]])
    assert post._refitted(even, devices, np.full(10, FAILING_SIGNAL)) is even


def test_the_gradient_of_posts_objective_is_that_of_finite_differences() -> None:
    random = np.random.default_rng(3)
    logits, before = random.normal(size=(3, 4)), softmax(random.normal(size=(3, 4)))
    devices, advantage = sample(before, 7, random), random.normal(size=7)

    def objective(values: np.ndarray) -> float:
        ratio = softmax(values)[np.arange(3), devices] / before[np.arange(3), devices]
        gains = advantage[:, None]
        return float(np.minimum(ratio * gains, np.clip(ratio, 0.8, 1.2) * gains).sum(1).mean())

    found = ppo_gradient(logits, before, devices, advantage, 0.2)
    step = 1e-6
    for unit, device in np.ndindex(3, 4):
        moved = np.zeros((3, 4))
        moved[unit, device] = step
        slope = (objective(logits + moved) - objective(logits - moved)) / (2 * step)
        assert found[unit, device] == pytest.approx(slope, abs=1e-6)


def network(num_units: int = 5, num_devices: int = 3) -> Any:
    from placewright.lab.learning.placers.features import unit_features
    from placewright.lab.learning.placers.placement_policy import seeded
    from placewright.lab.learning.placers.sequence_network import SequenceNetwork, SequencePlacer, UnitEmbedding

    graph = graph_of({f"op{i}": (f"op{i - 1}" if i else "", 4) for i in range(num_units)})
    problem = problem_of(graph, machine_of(num_devices))
    features = unit_features(problem, units_of(problem, ()))
    allowed = torch.ones(num_units, num_devices, dtype=torch.bool)
    allowed[1] = torch.arange(num_devices) == 0

    def make() -> Any:
        inputs = UnitEmbedding(features, 4)
        return SequencePlacer(inputs, SequenceNetwork(inputs.width, 8, num_devices), allowed)

    return seeded(make, 1)


def test_the_probabilities_of_all_placements_add_up_to_one_and_barred_devices_have_none() -> None:
    policy, generator = network(4, 3)
    every = torch.tensor(list(product(range(3), repeat=4)))
    log = policy.evaluate(every).log_probability.sum(1).detach()
    assert float(log.exp().sum()) == pytest.approx(1, abs=1e-5)
    assert bool((log[every[:, 1] != 0] == -torch.inf).all())
    assert bool((policy.sample(50, generator)[:, 1] == 0).all())


def test_what_is_drawn_step_by_step_is_as_likely_as_is_said_of_the_whole() -> None:
    policy, generator = network(3, 2)
    drawn = policy.sample(4000, generator)
    kinds, counts = torch.unique(drawn, dim=0, return_counts=True)
    expected = policy.evaluate(kinds).log_probability.sum(1).exp().detach()
    # A share of 4,000 draws scatters by at most half a percent.
    assert torch.allclose(counts / 4000, expected, atol=0.03)


def test_the_baseline_starts_at_the_failing_signal_and_failures_count_until_the_cut_off() -> None:
    from placewright.lab.learning.algorithms.reinforce import MovingBaseline, advantage_loss

    layer: Any = torch.nn.Linear(1, 1)
    learner = MovingBaseline(layer, learning_rate=0.0, start=FAILING_SIGNAL, cut_off=1)
    log = layer(torch.ones(2, 1))[:, 0]
    cost, runs = np.array([1.0, FAILING_SIGNAL]), np.array([True, False])
    # (1 - 10) log p of the first, (10 - 10) of the second, mean of two.
    assert float(advantage_loss(log, cost - FAILING_SIGNAL, np.array([True, True])).detach()) == pytest.approx(
        float(-9 * log[0].detach() / 2)
    )
    learner.differentiate(log, cost, runs)
    assert learner.baseline == pytest.approx(0.9 * 10 + 0.1 * 5.5)
    learner.differentiate(layer(torch.ones(2, 1))[:, 0], cost, runs)
    assert learner.baseline == pytest.approx(0.9 * 9.55 + 0.1 * 1.0)
    learner.differentiate(layer(torch.ones(2, 1))[:, 0], cost, np.array([False, False]))
    assert learner.baseline == pytest.approx(0.9 * 9.55 + 0.1 * 1.0)
    # Without a start the first placements are compared with their mean, not with a cost that none of them has.
    learner = MovingBaseline(layer, learning_rate=0.0, start=None)
    learner.differentiate(layer(torch.ones(2, 1))[:, 0], np.array([1.0, 3.0]), np.array([True, True]))
    assert learner.baseline == pytest.approx(2.0)
    with pytest.raises(InputError, match="a cost is not a finite number"):
        learner.differentiate(layer(torch.ones(2, 1))[:, 0], np.array([1.0, np.nan]), runs)
