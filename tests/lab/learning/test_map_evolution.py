"""Boltzmann chromosomes, the operators of evolution, and the values of maps, compared with slow references."""

from __future__ import annotations

import math

import numpy as np
import pytest
from map_networks import convolutions

from placewright.lab.learning.algorithms.evolution import Evolution, Individual
from placewright.lab.learning.egrl.boltzmann import (
    COLDEST,
    HOTTEST,
    Boltzmann,
    crossed,
    first_chromosome,
    fixed_range,
    mutated,
)
from placewright.lab.learning.egrl.genome import GraphGenome, crossed_rows, mutated_weights
from placewright.lab.learning.egrl.settings import evolution_settings
from placewright.lab.learning.environments.memory_map import MemoryMapEnvironment
from placewright.search.run.budget import Budget
from placewright.search.run.search_run import SearchRun


def chromosome(seed: int = 0, ops: int = 3) -> Boltzmann:
    return first_chromosome(ops, 3, "paper", np.random.default_rng(seed))


def test_probabilities_are_the_softmax_of_prior_over_temperature() -> None:
    of = chromosome()
    for op in range(3):
        for decision in range(2):
            weights = [math.exp(p / of.temperature[op, decision]) for p in of.prior[op, decision]]
            expected = [weight / sum(weights) for weight in weights]
            assert of.probabilities[op, decision] == pytest.approx(expected)


def test_levels_are_drawn_as_often_as_they_are_likely() -> None:
    # exp(0) : exp(0) : exp(ln 2) = 1 : 1 : 2
    prior = np.tile([0.0, 0.0, math.log(2)], (1, 2, 1))
    of = Boltzmann(prior=prior, temperature=np.ones((1, 2)))
    random = np.random.default_rng(1)
    drawn = np.stack([of.draw(random) for _ in range(4000)])
    for decision in range(2):
        shares = np.bincount(drawn[:, 0, decision], minlength=3) / 4000
        assert shares == pytest.approx([0.25, 0.25, 0.5], abs=0.03)


@pytest.mark.parametrize(("ops", "least", "most"), [(1, 0.3, 0.3), (2, 0.3, 0.3), (15, 0.05, 0.1), (150, 0.005, 0.05)])
def test_a_fixed_chromosome_changes_at_least_one_and_a_half_decisions_and_at_most_a_twentieth_or_three(
    ops: int, least: float, most: float
) -> None:
    for temperature, share in zip(fixed_range(ops, 3), (least, most), strict=True):
        other = math.exp(-1 / temperature)
        assert 2 * other / (1 + 2 * other) == pytest.approx(share)


def test_a_fixed_chromosome_begins_with_everything_in_the_slowest_level() -> None:
    of = first_chromosome(50, 3, "fixed", np.random.default_rng(0))
    assert (of.prior.argmax(axis=-1) == 2).all()
    assert (of.draw(np.random.default_rng(0)) == 2).mean() > 0.5


@pytest.mark.parametrize("seed", range(5))
def test_crossover_takes_the_first_ops_of_one_and_the_last_of_the_other(seed: int) -> None:
    one, other = chromosome(1, ops=6), chromosome(2, ops=6)
    child = crossed(one, other, np.random.default_rng(seed))
    of_one = [bool((child.prior[op] == one.prior[op]).all()) for op in range(6)]
    cut = sum(of_one)
    assert 1 <= cut <= 5
    assert of_one == [op < cut for op in range(6)]
    assert (child.temperature[:cut] == one.temperature[:cut]).all()
    assert (child.prior[cut:] == other.prior[cut:]).all()
    assert (child.temperature[cut:] == other.temperature[cut:]).all()


def test_the_papers_mutation_is_gaussian_and_temperatures_stay_in_their_range() -> None:
    of = Boltzmann(prior=np.zeros((500, 2, 3)), temperature=np.full((500, 2), COLDEST))
    child = mutated(of, evolution_settings("paper"), np.random.default_rng(0))
    assert child.prior.std() == pytest.approx(0.1, rel=0.1)
    assert child.temperature.min() >= COLDEST
    assert child.temperature.max() <= HOTTEST


def test_the_fixed_mutation_changes_all_temperatures_by_one_factor_and_no_prior() -> None:
    of = first_chromosome(5, 3, "fixed", np.random.default_rng(3))
    child = mutated(of, evolution_settings("fixed"), np.random.default_rng(4))
    factors = child.temperature / of.temperature
    assert factors == pytest.approx(np.full((5, 2), factors[0, 0]))
    assert factors[0, 0] != 1
    assert (child.prior == of.prior).all()


class NoActor:
    def probabilities(self, weights: object) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        raise AssertionError("operators do not act")


def genome(value: float) -> GraphGenome:
    arrays = {"matrix": (40, 30), "row": (40,), "attention": (1, 4, 8)}
    return GraphGenome(
        weights={name: np.full(shape, value, np.float32) for name, shape in arrays.items()}, actor=NoActor()
    )


def test_a_mutation_changes_at_most_a_twentieth_of_an_array_and_attention_only_where_all_are_meant() -> None:
    parent, random = genome(1), np.random.default_rng(0)
    changed = {"matrix": 0, "row": 0, "attention": 0}
    for _ in range(200):
        child = mutated_weights(parent, random, all_arrays=False)
        for name, array in child.weights.items():
            entries = int((array != 1).sum())
            assert entries <= max(1, array.size // 20)
            changed[name] += entries > 0
    # With probability U(0, 2), so about three quarters of the time; biases 25 times as rarely.
    assert 130 <= changed["matrix"] <= 170
    assert changed["row"] <= 20
    assert changed["attention"] == 0
    assert any((mutated_weights(parent, random, all_arrays=True).weights["attention"] != 1).any() for _ in range(5))
    assert all((array == 1).all() for array in parent.weights.values())


def test_crossover_of_policies_moves_whole_rows_at_most_a_third_of_them() -> None:
    one, other, random = genome(1), genome(2), np.random.default_rng(0)
    moved = []
    for _ in range(50):
        matrix = crossed_rows(one, other, random).weights["matrix"]
        of_one = (matrix == 1).all(axis=1)
        assert (of_one | (matrix == 2).all(axis=1)).all()
        moved.append(int(of_one.sum()))
    assert 0 < max(moved) <= 12


def environment(evaluations: int = 1000, *, rectifies: bool = False) -> MemoryMapEnvironment:
    run = SearchRun(Budget(evaluations=evaluations))
    return MemoryMapEnvironment(convolutions(), run, "ea", rectifies=rectifies)


def test_rewards_are_the_squared_speed_up_or_minus_the_share_of_moved_bytes() -> None:
    of = environment()
    problem = of.problem
    everything_fast = np.zeros((1, problem.num_ops, 2), np.uint8)
    everything_slow = np.full((1, problem.num_ops, 2), 2, np.uint8)
    latency, _, _ = problem.evaluate_one(problem.all_slowest())
    assert of.step(everything_slow).rewards[0] == pytest.approx((of.compiler_ps / latency) ** 2)
    _, moved, _ = problem.evaluate_one(np.zeros(problem.num_tensors, np.uint8))
    assert moved > 0
    assert of.step(everything_fast).rewards[0] == pytest.approx(-moved / problem.size_bytes.sum())
    assert of.run.evaluations == 2
    assert of.best.latency_ps == latency


def test_where_maps_are_rectified_the_executed_map_is_told_and_worth_its_latency() -> None:
    of = environment(rectifies=True)
    outcomes = of.step(np.zeros((1, of.problem.num_ops, 2), np.uint8))
    latency, moved, _ = of.problem.evaluate_one(of.problem.from_nodes(outcomes.executed)[0])
    assert moved == 0
    assert outcomes.rewards[0] == pytest.approx((of.compiler_ps / latency) ** 2)


def test_no_more_is_evaluated_than_the_budget_has() -> None:
    of = environment(evaluations=3)
    outcomes = of.step(np.full((5, of.problem.num_ops, 2), 2, np.uint8))
    assert len(outcomes.rewards) == 3
    assert of.run.evaluations == 3
    assert of.is_over


def test_a_fixed_chromosome_keeps_what_it_proposed_and_never_proposes_what_was_paid_for() -> None:
    of = environment(rectifies=True)
    settings = evolution_settings("fixed", only_chromosomes=True)
    # Nearly cold and all in SRAM, where not everything fits: without drawing anew all would propose the same.
    ops = of.problem.num_ops
    first = first_chromosome(ops, 3, "fixed", np.random.default_rng(0)).with_prior(np.zeros((ops, 2), np.uint8))
    evolution = Evolution(settings, [Individual(genome=first) for _ in range(4)])
    random = np.random.default_rng(1)
    for _ in range(3):
        evolution.rollout(of, random)
        for each in evolution.population:
            assert each.actions is not None
            assert isinstance(each.genome, Boltzmann)
            assert (each.genome.prior.argmax(axis=-1) == each.actions).all()
            executed = of.problem.evaluate_one(of.problem.from_nodes(each.actions))
            assert each.fitness == pytest.approx((of.compiler_ps / executed[0]) ** 2)
        evolution.population = [Individual(genome=each.genome) for each in evolution.population]
    assert len(evolution.known) == of.run.evaluations


def test_elites_survive_unchanged_and_the_number_of_individuals_stays() -> None:
    settings = evolution_settings("paper", only_chromosomes=True)
    population = [Individual(genome=chromosome(seed), fitness=float(seed)) for seed in range(20)]
    evolution = Evolution(settings, population)
    evolution.next_generation(np.random.default_rng(0))
    assert [each.fitness for each in evolution.population[:2]] == [19.0, 18.0]
    assert len(evolution.population) == 20
    assert all(each.fitness is None for each in evolution.population[2:])
