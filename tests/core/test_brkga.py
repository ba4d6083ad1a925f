"""The core's BRKGA: what it promises to any caller."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from searches import random_problem, search

import placewright._core as _core
from placewright.problem import Problem

SEVERAL = {"populations": 3, "exchanged": 2}


def objective_of(problem: Problem, keys: np.ndarray) -> int:
    return problem.core.simulate(*problem.core.decode(keys)).step_time_ns


@pytest.mark.parametrize("settings", [{}, SEVERAL], ids=["one population", "three"])
@pytest.mark.parametrize("seed", range(4))
def test_more_generations_never_lose_the_best_and_its_keys_mean_it(seed: int, settings: dict[str, Any]) -> None:
    problem = random_problem(25, seed)
    evolving = search(problem, seed=seed, **settings)
    best = np.iinfo(np.int64).max
    for _ in range(12):
        evolving.evolve(1)
        assert evolving.best_objective <= best
        best = evolving.best_objective
        assert best == objective_of(problem, evolving.best_keys())


@pytest.mark.parametrize("evaluations", [1, 2, 19, 20, 21, 36, 37, 100])
@pytest.mark.parametrize("settings", [{}, SEVERAL], ids=["one population", "three"])
def test_a_budget_is_spent_to_the_last_evaluation(evaluations: int, settings: dict[str, Any]) -> None:
    evolving = search(random_problem(15, 1), **settings)
    evolving.advance(evaluations)
    assert evolving.evaluations == evaluations


def test_the_first_generation_is_a_whole_population_and_later_ones_are_without_the_elites() -> None:
    evolving = search(random_problem(15, 1))
    spent = []
    for _ in range(3):
        evolving.evolve(1)
        spent.append(evolving.evaluations)
    # A population of 20 of which 4 elites stay.
    assert spent == [20, 36, 52]


def test_a_budget_already_spent_does_nothing() -> None:
    evolving = search(random_problem(15, 1))
    evolving.advance(30)
    keys = evolving.best_keys()
    evolving.advance(30)
    # The first generation of 20 is over, the second has bred 10 of its 16.
    assert (evolving.evaluations, evolving.generation) == (30, 1)
    assert np.array_equal(evolving.best_keys(), keys)


@pytest.mark.parametrize("seed", range(5))
def test_a_seeded_search_is_never_worse_than_its_seeds(seed: int) -> None:
    problem = random_problem(30, seed)
    teacher = search(problem, seed=seed + 100)
    teacher.advance(2000)
    poor = np.zeros(problem.core.num_keys, np.uint32)
    taught = search(problem, seed=seed, seeds=[poor, teacher.best_keys()])
    taught.advance(2)
    assert taught.best_objective == min(teacher.best_objective, objective_of(problem, poor))
    taught.advance(400)
    assert taught.best_objective <= teacher.best_objective


def test_seeds_are_dealt_to_populations_in_turn() -> None:
    problem = random_problem(30, 3)
    seeds = [np.full(problem.core.num_keys, index, np.uint32) for index in range(4)]
    evolving = search(problem, seeds=seeds, populations=2, exchanged=1)
    evolving.advance(4)
    # Equal keys all mean the same solution, and the first evaluated is the best of equals.
    assert np.array_equal(evolving.best_keys(), seeds[0])


def test_a_proposal_that_leaves_no_choice_is_followed() -> None:
    problem = random_problem(20, 2)
    num_ops = 20
    # Affinities to device 1 are drawn near 1, to device 0 near 0: every op is on device 1.
    row = np.full(problem.core.num_keys, 2, np.uint16)
    row[: 2 * num_ops : 2], row[1 : 2 * num_ops : 2] = 0, 1
    alpha, beta = np.array([1.0, 100.0, 1.0]), np.array([100.0, 1.0, 1.0])
    evolving = search(problem, tables=_core.BetaTables(alpha, beta), row=row)
    evolving.advance(100)
    device_of, order = problem.core.decode(evolving.best_keys())
    assert device_of.tolist() == [1] * num_ops
    assert len(order) == num_ops


def test_minimising_memory_looks_at_memory() -> None:
    problem = random_problem(25, 6, objective="peak-memory")
    evolving = search(problem)
    evolving.advance(500)
    found = problem.core.simulate(*problem.core.decode(evolving.best_keys()))
    assert evolving.best_objective == found.peak_memory_bytes


def test_bytes_over_the_limit_come_before_the_objective() -> None:
    free = random_problem(25, 6)
    fastest = search(free)
    fastest.advance(2000)
    limited = random_problem(25, 6, memory_limits_bytes=(25, 25))
    evolving = search(limited)
    evolving.advance(2000)
    fast = limited.core.simulate(*limited.core.decode(fastest.best_keys()))
    assert evolving.best_bytes_over_limit < fast.bytes_over_limit


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"population": 1}, "population"),
        ({"elites": 0}, "elites"),
        ({"elites": 20, "mutants": 0}, "elites"),
        ({"mutants": 17}, "mutants"),
        ({"elite_bias": 0.3}, "elite_bias"),
        ({"elite_bias": float("nan")}, "elite_bias"),
        ({"populations": 0}, "populations"),
        ({"exchange_interval": 0}, "exchange_interval"),
        ({"populations": 3, "exchanged": 9}, "exchanged"),
        ({"seeds": [np.zeros(3, np.uint32)]}, "seed"),
        ({"tables": _core.BetaTables(np.ones(1), np.ones(1))}, "proposal"),
        ({"row": np.zeros(3, np.uint16)}, "proposal"),
        (
            {"tables": _core.BetaTables(np.ones(1), np.ones(1)), "row": np.zeros(3, np.uint16)},
            "one distribution per key",
        ),
    ],
)
def test_settings_that_cannot_be_are_refused_by_name(wrong: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        search(random_problem(10, 1), **wrong)


def test_a_proposal_that_names_a_distribution_there_is_not_is_refused() -> None:
    problem = random_problem(10, 1)
    row = np.ones(problem.core.num_keys, np.uint16)
    with pytest.raises(ValueError, match="does not exist"):
        search(problem, tables=_core.BetaTables(np.ones(1), np.ones(1)), row=row)
