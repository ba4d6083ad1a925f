"""Learned placers on what is small, empty, huge or impossible: each ends with a plan or a sentence."""

from __future__ import annotations

from dataclasses import replace

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
@pytest.mark.parametrize(
    ("ops", "num_devices", "time_ns", "expected"),
    [
        # Two ops of 10 ns: in turn 20, apart 10.
        (PAIR, 5, 10, {20}),
        ({"a": ("", 4), "b": ("", 4)}, 2, 10, {10, 20}),
        ({"a": ("", 0), "b": ("a", 0)}, 2, 0, {0}),
        ({"a": ("", 2**41), "b": ("a", 4)}, 2, 10, {20}),
    ],
    ids=["fewer groups than devices", "no edges", "neither time nor bytes", "beyond a terabyte"],
)
def test_unusual_graphs_are_placed(
    method: LearnedPlacer, ops: dict[str, tuple[str, int]], num_devices: int, time_ns: int, expected: set[int]
) -> None:
    method = method if ops is PAIR else replace(method, colocation=())
    result = solved(method, problem_of(graph_of(ops), machine_of(num_devices), time_ns))
    assert result.metrics.step_time_ns in expected


def test_a_group_larger_than_every_device_leaves_a_plan_that_says_what_is_missing() -> None:
    # Two ops of one group make 8 bytes each; a device holds 10, so 6 are missing wherever they stand.
    graph = graph_of({"a": ("", 8), "b": ("a", 8)})
    together = Constraints(colocations=(("a", "b"),))
    problem = problem_of(graph, machine_of(2), 10, constraints=together, memory_limits_bytes=(10, 10))
    assert solved(Post(), problem).metrics.bytes_over_limit == 6


def test_a_reference_of_no_time_divides_nothing_by_nothing() -> None:
    environment = FirstComeEnvironment(problem_of(graph_of(PAIR), machine_of(2), 0))
    trials = environment.measure(np.zeros((1, 2), np.int32))
    assert np.isfinite(trials.cost).all()
