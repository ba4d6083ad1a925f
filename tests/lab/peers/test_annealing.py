"""Simulated annealing over keys."""

from __future__ import annotations

import numpy as np
import pytest
from instances import graph_of, machine_of, problem_of

import placewright._core as _core
from placewright.lab.peers.annealing import Annealing
from placewright.machine import Link
from placewright.problem import Problem
from placewright.proposal import Proposal
from placewright.search.run.budget import Budget
from placewright.search.run.search_run import SearchRun
from placewright.support.errors import InputError


def two_chains() -> Problem:
    """Two chains of three ops of 10 ns: 30 ns when apart, 60 ns on one device."""
    reads = {"a": ("", 4), "x": ("", 4), "b": ("a", 4), "y": ("x", 4), "c": ("b", 4), "z": ("y", 4)}
    return problem_of(graph_of(reads), machine_of(2), 10)


def all_on_the_second_device(problem: Problem) -> Proposal:
    """Affinities of device 1 are near 1, of device 0 near 0; all other keys uniform."""
    row = np.full(problem.core.num_keys, 2)
    affinities = problem.core.num_ops * 2
    row[:affinities] = np.arange(affinities) % 2
    return Proposal(alpha=np.array([1.0, 1000.0, 1.0]), beta=np.array([1000.0, 1.0, 1.0]), row=row)


def test_two_chains_end_up_on_a_device_each() -> None:
    result = Annealing().solve(two_chains(), SearchRun(Budget(evaluations=2000)))
    assert result.metrics.step_time_ns == 30


def test_keys_are_drawn_from_the_proposal_at_the_start_and_in_moves() -> None:
    problem = two_chains()
    result = Annealing().solve(problem, SearchRun(Budget(evaluations=2000), guide=all_on_the_second_device(problem)))
    assert result.solution.device_of.tolist() == [1] * 6
    assert result.metrics.step_time_ns == 60


def test_a_proposal_for_another_problem_is_refused() -> None:
    proposal = Proposal(alpha=np.ones(1), beta=np.ones(1), row=np.zeros(3, np.int64))
    with pytest.raises(InputError, match="the proposal is for 3 keys"):
        Annealing().solve(two_chains(), SearchRun(Budget(evaluations=10), guide=proposal))


def test_the_budget_sets_how_fast_it_cools() -> None:
    # After 400 evaluations of 400 it is cold and has gone down; of a million it is as hot as at first and wanders.
    reads = {f"op{i}": (" ".join(f"op{j}" for j in range(max(0, i - 3), i)), 4) for i in range(40)}
    problem = problem_of(graph_of(reads), machine_of(2, Link(latency_ns=50)), 10)
    cold, hot = (
        _core.Annealing(problem=problem.core, seed=1, keys_per_move=4, first_temperature=10.0, last_temperature=1e-6)
        for _ in range(2)
    )
    cold.advance(400)
    hot.advance(10**6, at_most=400)
    assert cold.best_objective < hot.best_objective
