"""One Beta distribution for each part of a chromosome."""

from __future__ import annotations

import numpy as np
import pytest

from placewright.lab.datasets.problem_set import PAPER_MACHINE
from placewright.lab.datasets.synthetic import random_graph
from placewright.lab.peers.brkga import Brkga, KeyBetas
from placewright.machines import load_machine
from placewright.problem import Problem, make_problem
from placewright.search.run.budget import Budget
from placewright.search.run.search_run import SearchRun

BETAS = KeyBetas(affinity=(2.0, 3.0), priority=(4.0, 5.0), transfer=(6.0, 7.0))


@pytest.fixture(scope="module")
def problem() -> Problem:
    return make_problem(random_graph(3, 1), load_machine(PAPER_MACHINE), control="order")


def step_time(problem: Problem, method: Brkga) -> int:
    return method.solve(problem, SearchRun(Budget(evaluations=500), seed=2)).metrics.step_time_ns


def test_each_part_has_its_own_distribution(problem: Problem) -> None:
    num_ops = problem.core.num_ops
    proposal = BETAS.proposal(problem, "paper")
    # As A.5 lays them out: ops x 2 affinities, ops' priorities, the rest are transfers'.
    assert np.unique(proposal.alpha[proposal.row[: 2 * num_ops]]) == [2.0]
    assert np.unique(proposal.beta[proposal.row[2 * num_ops : 3 * num_ops]]) == [5.0]
    assert np.unique(proposal.alpha[proposal.row[3 * num_ops :]]) == [6.0]
    alone = BETAS.proposal(problem, "segment-fill")
    assert np.unique(alone.alpha[alone.row]) == [4.0]  # a decoder of priorities alone


def test_uniform_distributions_are_none(problem: Problem) -> None:
    assert step_time(problem, Brkga(betas=KeyBetas())) == step_time(problem, Brkga())


def test_a_proposal_of_the_run_takes_their_place(problem: Problem) -> None:
    uniform = KeyBetas().proposal(problem, "paper")
    run = SearchRun(Budget(evaluations=500), seed=2, guide=uniform)
    guided = Brkga(betas=BETAS).solve(problem, run).metrics.step_time_ns
    assert guided == step_time(problem, Brkga())
    assert step_time(problem, Brkga(betas=BETAS)) != guided
