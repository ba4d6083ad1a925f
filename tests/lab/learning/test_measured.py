"""Placements that are measured: what was fastest there is the plan, whatever the simulation says."""

from __future__ import annotations

import numpy as np
import pytest
from lab.learning.placer_cases import columns

from placewright.lab.learning.environments.first_come import MeasuredEnvironment
from placewright.lab.learning.placers.controls import RandomPlacement
from placewright.lab.learning.placers.post import Post
from placewright.problem import Problem
from placewright.search.run.budget import Budget
from placewright.search.run.result import Solution
from placewright.search.run.search_run import SearchRun
from placewright.support.errors import InputError


def slow_first_device(problem: Problem, solution: Solution) -> int:
    """100 ns for every op on the first device and 10 on the second, however they are shared."""
    return int(np.where(solution.device_of == 0, 100, 10).sum())


def test_the_plan_is_the_placement_that_was_measured_to_be_fastest() -> None:
    # Nine ops of 10 ns: simulated, one device takes 90 and both together less. Measured, the second alone takes 90 and
    # every op on the first 90 more.
    problem = columns(3, 1)
    method = RandomPlacement(colocation=(), time_of=slow_first_device)
    result = method.solve(problem, SearchRun(Budget(evaluations=50)))
    assert result.solution.device_of.tolist() == [1] * 9
    assert result.metrics.step_time_ns == 90
    assert result.evaluations == 50
    assert result.configuration["environment"] == "measured"
    simulated = RandomPlacement(colocation=()).solve(problem, SearchRun(Budget(evaluations=50)))
    assert simulated.metrics.step_time_ns < 90
    assert simulated.configuration["environment"] == "simulated"


def test_learners_learn_from_what_is_measured() -> None:
    environment = MeasuredEnvironment(slow_first_device, columns(3))
    trials = environment.measure(np.array([[0] * 9, [1] * 9, [0] * 3 + [1] * 6], np.int32))
    assert trials.objective.tolist() == [900, 90, 360]
    result = Post(colocation=(), time_of=slow_first_device).solve(columns(10), SearchRun(Budget(evaluations=400)))
    assert result.solution.device_of.tolist() == [1] * 30


def test_what_does_not_fit_is_not_run() -> None:
    def refused(problem: Problem, solution: Solution) -> int:
        raise AssertionError("it was run")

    # An op makes 4 bytes, and no device may hold more than one.
    environment = MeasuredEnvironment(refused, columns(3, memory_limits_bytes=(1, 1)))
    assert not environment.measure(np.zeros((2, 9), np.int32)).runs.any()


def test_memory_is_not_measured() -> None:
    with pytest.raises(InputError, match="measured for the step time, not for peak-memory"):
        MeasuredEnvironment(slow_first_device, columns(3, objective="peak-memory"))
