"""Annealing for the least peak memory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from instances import graph_of, machine_of, problem_of
from reference import best_objective
from strategies import problems

from placewright.bounds import lower_bound
from placewright.lab.bench.suite import read_suite
from placewright.lab.datasets.synthetic import random_graph
from placewright.plans.assemble import assemble_plan
from placewright.problem import Problem
from placewright.search.auto import Auto
from placewright.search.constructive.baseline import Baseline
from placewright.search.constructive.one_device import INPUT_ORDER, LPMF, REVERSE_GREEDY, XLA_LIST
from placewright.search.metaheuristics.peak_search import PeakSearch
from placewright.search.run.budget import Budget
from placewright.search.run.search_run import SearchRun
from placewright.support.errors import InputError
from placewright.verification.checker import check_plan


def peak_of(problem: Problem, **budget: Any) -> int:
    return PeakSearch().solve(problem, SearchRun(Budget(**budget))).metrics.peak_memory_bytes


def three_sums(num_devices: int, **rest: Any) -> Problem:
    """Captured breadth first: three large tensors, each read by an op that makes a small one, and a sum of those."""
    large = {f"large{i}": ("", 10) for i in range(3)}
    small = {f"small{i}": (f"large{i}", 1) for i in range(3)}
    graph = graph_of({**large, **small, "sum": ("small0 small1 small2", 1)})
    machine = machine_of(num_devices, transfer_model="blocking")
    return problem_of(graph, machine, **{"objective": "peak-memory", **rest})


def test_on_one_device_branches_run_one_after_another() -> None:
    # Captured: 3 * 10 + 1 while small0 runs. One after another: two small ones, then 10 + 1 for the third branch.
    problem = three_sums(1)
    assert INPUT_ORDER.solve(problem, SearchRun()).metrics.peak_memory_bytes == 31
    assert peak_of(problem) == 13


def test_on_two_devices_what_is_small_waits_elsewhere() -> None:
    # large and small of a branch are 11 bytes on its device, so less cannot be; 11 is met when the small ones that are
    # there already wait on the device where no branch runs.
    assert peak_of(three_sums(2)) == 11


def test_memory_limits_that_no_start_keeps_are_met() -> None:
    # Step time is the objective, but nothing above 11 bytes may be on a device; see above.
    problem = three_sums(2, objective="step-time", memory_limits_bytes=(11, 11))
    starts = PeakSearch().solve(problem, SearchRun(Budget(evaluations=1)))
    assert starts.metrics.bytes_over_limit > 0
    assert PeakSearch().solve(problem, SearchRun()).metrics.bytes_over_limit == 0


@pytest.mark.parametrize("method", [INPUT_ORDER, LPMF, XLA_LIST, REVERSE_GREEDY], ids=lambda method: method.name)
@settings(max_examples=25)
@given(problem=problems(max_devices=1))
def test_on_one_device_it_is_never_worse_than_a_simple_order(method: Baseline, problem: Problem) -> None:
    result = PeakSearch().solve(problem, SearchRun(Budget(evaluations=20)))
    simple = method.solve(problem, SearchRun())
    assert result.metrics.fitness(problem.objective) <= simple.metrics.fitness(problem.objective)


@settings(max_examples=60)
@given(problem=problems(max_ops=6, max_devices=1))
def test_on_one_device_it_proves_the_least_peak(problem: Problem) -> None:
    problem = replace(problem, objective="peak-memory", memory_limits_bytes=(None,))
    result = PeakSearch().solve(problem, SearchRun(Budget(evaluations=5000)))
    assert result.metrics.peak_memory_bytes == best_objective(problem)
    assert result.stopped_because == "optimal"
    assert result.proven_bound == result.metrics.peak_memory_bytes


def test_the_least_peak_is_no_optimum_where_it_is_over_the_limit() -> None:
    # One branch after another needs 13 bytes, as above, and no order needs less; 12 are allowed.
    problem = three_sums(1, memory_limits_bytes=(12,))
    result = PeakSearch().solve(problem, SearchRun())
    assert (result.metrics.peak_memory_bytes, result.metrics.bytes_over_limit) == (13, 1)
    assert (result.proven_bound, result.stopped_because) == (13, "complete")
    plan = assemble_plan(problem, result, solver="peak-search", seconds=1.0)
    assert check_plan(plan, problem.graph, problem.time_ns) == []


def test_nasnet_needs_no_less_than_the_best_of_simple_orders() -> None:
    # No cut proves it: the plan is optimal because every set of finished ops that matters has been looked through.
    suite = read_suite(Path(__file__).parents[2] / "benchmarks" / "suites" / "one-device.toml")
    problem = suite.problem(suite.graph(suite.labels.index("nasnet_a_large-inference")))
    result = Auto().solve(problem, SearchRun(Budget(evaluations=20_000)))
    assert lower_bound(problem).value < 0.96 * result.metrics.peak_memory_bytes
    assert (result.found_by, result.stopped_because) == ("single-device: lpmf", "optimal")
    assert assemble_plan(problem, result, solver="auto", seconds=1.0).status == "optimal"


def test_it_reaches_what_cp_sat_proved_to_be_least() -> None:
    # Candidates 32 and 287 of seed 5, 52 ops each: 257 and 300 bytes, proven in half a second each.
    machine = machine_of(2, transfer_model="blocking")
    for index, least in ((32, 257), (287, 300)):
        problem = problem_of(random_graph(5, index), machine, objective="peak-memory", control="order")
        assert peak_of(problem) == least


def test_a_search_ends_at_its_time_limit_and_says_so() -> None:
    result = PeakSearch().solve(three_sums(2), SearchRun(Budget(evaluations=2**50, seconds=0.05)))
    assert result.stopped_because == "time"
    assert result.metrics.peak_memory_bytes == 11


@pytest.mark.parametrize(
    "wrong", [{"last_temperature": 0.0}, {"first_temperature": 1e-9}, {"first_temperature": np.inf}]
)
def test_temperatures_that_cannot_be_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="temperatures"):
        PeakSearch(**wrong)
