"""Random search: one generation, however many individuals."""

from __future__ import annotations

import numpy as np
import pytest
from instances import graph_of, machine_of, problem_of

from placewright.lab.peers.brkga import Brkga
from placewright.lab.peers.random_search import RandomSearch
from placewright.machine import Link
from placewright.problem import Problem
from placewright.proposal import Proposal
from placewright.search.run.budget import Budget
from placewright.search.run.search_run import SearchRun

GRAPH = graph_of({"a": ("", 4), "b": ("a", 4), "c": ("a", 4), "d": ("b c", 4), "e": ("", 4), "f": ("e d", 4)})


def problem() -> Problem:
    return problem_of(GRAPH, machine_of(3, Link(latency_ns=3), "blocking"), [5, 9, 7, 3, 8, 2])


def test_the_first_hundred_are_the_first_generation_of_any_brkga() -> None:
    for evaluations in (1, 50, 100):
        drawn = RandomSearch().solve(problem(), SearchRun(Budget(evaluations=evaluations), seed=5))
        evolved = Brkga(population=100, elites=40, mutants=3).solve(
            problem(), SearchRun(Budget(evaluations=evaluations), seed=5)
        )
        assert drawn.evaluations == evolved.evaluations == evaluations
        assert np.array_equal(drawn.solution.order, evolved.solution.order)


def test_nothing_is_learned_on_the_way() -> None:
    # Two rows of ops, each reading its own row and the other: crossing helps BRKGA, new draws learn nothing.
    names = [f"op{index}" for index in range(60)]
    graph = graph_of(
        {n: (f"{names[i - 2]} {names[i - 1]}" if i > 8 and i % 4 == 0 else "", 4) for i, n in enumerate(names)}
    )
    ladder = problem_of(graph, machine_of(2, transfer_model="blocking"), [1 + index % 13 for index in range(60)])
    drawn, evolved = (
        sum(
            method.solve(ladder, SearchRun(Budget(evaluations=3000), seed=seed)).metrics.step_time_ns
            for seed in range(3)
        )
        for method in (RandomSearch(), Brkga())
    )
    assert evolved < drawn


@pytest.mark.parametrize(("alpha", "beta", "device"), [(1e5, 1.0, 0), (1.0, 1e5, 1)])
def test_a_proposal_guides_every_draw(alpha: float, beta: float, device: int) -> None:
    # The affinities to d0 are drawn near 1, or near 0; all others are uniform: the keys of op x device come first.
    graph = graph_of({f"op{index}": ("", 4) for index in range(8)})
    two = problem_of(graph, machine_of(2), 1)
    row = np.zeros(two.core.num_keys, np.uint16)
    row[0:16:2] = 1
    proposal = Proposal(alpha=np.array([1.0, alpha]), beta=np.array([1.0, beta]), row=row)
    drawn = RandomSearch().solve(two, SearchRun(Budget(evaluations=1), seed=3, guide=proposal))
    assert drawn.solution.device_of.tolist() == [device] * 8
