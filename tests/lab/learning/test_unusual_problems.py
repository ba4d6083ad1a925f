"""Learned placers on what is small, empty, huge or impossible: each ends with a plan or a sentence."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from instances import graph_of, machine_of, problem_of

from placewright.lab.learning.environments.first_come import FirstComeEnvironment
from placewright.lab.learning.placers.colocrl import ColocRl
from placewright.lab.learning.placers.hdp import Hdp
from placewright.lab.learning.placers.placer import LearnedPlacer
from placewright.lab.learning.placers.placeto import Placeto
from placewright.lab.learning.placers.post import Post
from placewright.lab.learning.placers.spotlight import Spotlight
from placewright.problem import Problem
from placewright.problem.constraints import Constraints
from placewright.search.run.budget import Budget
from placewright.search.run.result import Result
from placewright.search.run.search_run import SearchRun
from placewright.support.errors import InputError

pytest.importorskip("torch", reason="learned placers have networks")

LEARNERS: tuple[LearnedPlacer, ...] = (
    Post(),
    ColocRl(hidden=4, samples=2),
    Hdp(hidden=4, grouper_hidden=4, num_groups=4, samples=2),
    Spotlight(hidden=4, samples=2),
    Placeto(hidden=4, rounds=1),
)
every_learner = pytest.mark.parametrize("method", LEARNERS, ids=lambda method: method.name)


def solved(method: LearnedPlacer, problem: Problem) -> Result:
    return method.solve(problem, SearchRun(Budget(evaluations=40), seed=1))


PAIR = {"a": ("", 4), "b": ("a", 4)}


@every_learner
def test_fewer_groups_than_devices_and_ops_without_edges_are_placed(method: LearnedPlacer) -> None:
    # Two ops of 10 ns: in turn 20, apart 10; the second graph has no edge at all.
    assert solved(method, problem_of(graph_of(PAIR), machine_of(5), 10)).metrics.step_time_ns == 20
    apart = problem_of(graph_of({"a": ("", 4), "b": ("", 4)}), machine_of(2), 10)
    assert solved(replace(method, colocation=()), apart).metrics.step_time_ns in (10, 20)


@every_learner
def test_ops_without_time_and_tensors_without_bytes_are_placed(method: LearnedPlacer) -> None:
    result = solved(method, problem_of(graph_of({"a": ("", 0), "b": ("a", 0)}), machine_of(2), 0))
    assert result.metrics.step_time_ns == 0


@every_learner
def test_tensors_beyond_a_terabyte_are_placed(method: LearnedPlacer) -> None:
    result = solved(method, problem_of(graph_of({"a": ("", 2**41), "b": ("a", 4)}), machine_of(2), 10))
    assert result.metrics.step_time_ns == 20


@every_learner
def test_pinned_ops_stay_where_they_are_pinned(method: LearnedPlacer) -> None:
    graph = graph_of({"a": ("", 4), "b": ("a", 4), "c": ("", 4)})
    problem = problem_of(graph, machine_of(2), 10, constraints=Constraints(pins=(("b", "d1"),)))
    assert solved(replace(method, colocation=()), problem).solution.device_of[1] == 1


def test_a_group_larger_than_every_device_leaves_a_plan_that_says_what_is_missing() -> None:
    # Two ops of one group make 8 bytes each; a device holds 10, so 6 are missing wherever they stand.
    graph = graph_of({"a": ("", 8), "b": ("a", 8)})
    together = Constraints(colocations=(("a", "b"),))
    problem = problem_of(graph, machine_of(2), 10, constraints=together, memory_limits_bytes=(10, 10))
    assert solved(Post(), problem).metrics.bytes_over_limit == 6


def test_costs_that_are_no_numbers_are_refused_where_the_problem_is_made() -> None:
    problem = problem_of(graph_of(PAIR), machine_of(2), 10)
    times: Any = problem.time_ns.copy()
    times[0] = -1
    with pytest.raises(InputError, match="has an op with a negative time"):
        replace(problem, time_ns=times)


def test_a_reference_of_no_time_divides_nothing_by_nothing() -> None:
    environment = FirstComeEnvironment(problem_of(graph_of(PAIR), machine_of(2), 0))
    trials = environment.measure(np.zeros((1, 2), np.int32))
    assert np.isfinite(trials.cost).all()
