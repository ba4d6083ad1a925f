"""More evaluations never give a worse plan: twice a budget contains the budget."""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import count, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import problems

from placewright.importers import load_graph
from placewright.machines import load_machine
from placewright.problem import Problem, make_problem
from placewright.search.auto import Auto
from placewright.search.metaheuristics.annealing_rounds import AnnealingRounds
from placewright.search.metaheuristics.schedule_annealing import ScheduleAnnealing
from placewright.search.portfolio import run_baselines
from placewright.search.run.budget import UNLIMITED, Budget, Progress
from placewright.search.run.result import Result
from placewright.search.run.search_run import SearchRun


@pytest.fixture(scope="module")
def inception() -> Problem:
    """314 ops: a first round has at least 1,256 evaluations."""
    return make_problem(load_graph("example:inception-v3"), load_machine("4xv100/nvlink"))


def solve(problem: Problem, evaluations: int, seed: int = 0, threads: int = 1) -> Result:
    return Auto().solve(problem, SearchRun(Budget(evaluations=evaluations), seed=seed, threads=threads))


@given(problem=problems(), evaluations=st.integers(600, 900), seed=st.integers(0, 3))
@settings(max_examples=25)
def test_twice_the_evaluations_never_give_a_worse_plan_without_limits(
    problem: Problem, evaluations: int, seed: int
) -> None:
    # Under limits that no baseline keeps, a share of the budget first goes to a search for a plan within them.
    problem = replace(problem, objective="step-time", memory_limits_bytes=(None,) * problem.machine.num_devices)
    found = [solve(problem, evaluations << times, seed).metrics.fitness("step-time") for times in range(4)]
    assert found == sorted(found, reverse=True)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_on_a_network_twice_the_evaluations_never_give_a_worse_plan(inception: Problem, seed: int) -> None:
    found = [solve(inception, 3000 << times, seed).metrics.step_time_ns for times in range(6)]
    assert found == sorted(found, reverse=True)


def test_a_plan_within_twice_the_evaluations_passes_through_that_of_the_budget(inception: Problem) -> None:
    small, large = solve(inception, 6000), solve(inception, 12000)
    assert (small.evaluations, large.evaluations) == (6000, 12000)
    reached = min(point.best for point in large.trace if point.evaluations <= 6000)
    assert reached == small.metrics.step_time_ns


def test_the_plan_of_a_budget_does_not_depend_on_the_threads(inception: Problem) -> None:
    one, two = solve(inception, 8000), solve(inception, 8000, threads=2)
    assert np.array_equal(one.solution.device_of, two.solution.device_of)
    assert np.array_equal(one.solution.order, two.solution.order)
    assert one.evaluations == two.evaluations


def test_seeds_lead_elsewhere(inception: Problem) -> None:
    plans = {solve(inception, 6000, seed).metrics.step_time_ns for seed in range(4)}
    assert len(plans) > 1


def test_rounds_report_their_progress_as_one_search(inception: Problem) -> None:
    seen: list[Progress] = []
    result = Auto().solve(inception, SearchRun(Budget(evaluations=12000), on_progress=seen.append))
    search = [progress for progress in seen if progress.method == "schedule-annealing"]
    assert all(a.evaluations <= b.evaluations and a.best >= b.best for a, b in pairwise(search))
    assert search[0].evaluations > sum(baseline.evaluations for baseline in result.baselines)
    assert search[-1].evaluations == result.evaluations == 12000
    assert search[-1].best == result.metrics.step_time_ns


def test_an_interrupt_ends_all_rounds(inception: Problem) -> None:
    looks = iter(range(10**9))
    result = Auto().solve(inception, SearchRun(Budget(evaluations=100_000), interrupted=lambda: next(looks) > 150))
    assert result.stopped_because == "interrupted"
    assert result.evaluations < 100_000


def test_rounds_of_a_time_limit_end_where_it_ends(inception: Problem) -> None:
    baselines = run_baselines(inception, SearchRun())
    rounds = AnnealingRounds(method=ScheduleAnnealing(), baselines=baselines)
    result = rounds.solve(inception, SearchRun(Budget(evaluations=UNLIMITED, seconds=0.3)))
    assert result.stopped_because == "time"
    assert result.metrics.step_time_ns <= baselines[0].metrics.step_time_ns
    assert list(result.trace) == sorted(result.trace, key=lambda point: (point.evaluations, -point.best))


def test_no_round_begins_after_the_time_limit(inception: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    baselines = run_baselines(inception, SearchRun(Budget(seconds=0.01)))
    seconds = iter(range(100))
    asked = []

    class Slow(ScheduleAnnealing):
        def solve(self, problem: Problem, run: SearchRun) -> Result:
            asked.append(run.budget)
            return replace(baselines[0], stopped_because="time")

    # Each look at the clock is a second after the one before.
    monkeypatch.setattr(time, "perf_counter", lambda: float(next(seconds)))
    rounds = AnnealingRounds(method=Slow(), baselines=baselines)
    result = rounds.solve(inception, SearchRun(Budget(evaluations=1_000_000, seconds=1.5)))
    assert result.stopped_because == "time"
    assert [budget.seconds for budget in asked] == [0.5]


def test_all_evaluations_there_are_without_a_time_limit_go_on_until_the_interrupt(inception: Problem) -> None:
    looks = count()
    result = Auto().solve(inception, SearchRun(Budget(evaluations=UNLIMITED - 1), interrupted=lambda: next(looks) > 40))
    assert result.stopped_because == "interrupted"
