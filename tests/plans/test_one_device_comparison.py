"""A plan is compared with the best single device, whichever the user names first."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from instances import graph_of, machine_of, problem_of

from placewright.analysis.outcome import captured_order, gain_words, one_device_words
from placewright.machine import Link
from placewright.methods.table import make_method
from placewright.plans.assemble import assemble_plan
from placewright.plans.record import OneDevice, Plan
from placewright.problem import Problem
from placewright.problem.constraints import Constraints
from placewright.search.run.budget import Budget
from placewright.search.run.search_run import SearchRun
from placewright.verification.checker import check_plan

#: Two ops that need not wait for each other: 4 bytes each.
PAIR = graph_of({"a": ("", 4), "b": ("", 4)})


def plan_for(problem: Problem, solver: str = "auto") -> Plan:
    result = make_method(solver).solve(problem, SearchRun(Budget(evaluations=30)))
    return assemble_plan(problem, result, solver=solver, seconds=0.25)


def known(plan: Plan) -> OneDevice:
    assert plan.one_device is not None
    return plan.one_device


@pytest.mark.parametrize("slow", [0, 1, 2])
def test_one_device_is_the_fastest_and_not_the_first(slow: int) -> None:
    """The slow device takes 100 ns for an op, the others 10: one of them alone 20, two at a time 10, half of it."""
    times = np.full((2, 3), 10)
    times[:, slow] = 100
    plan = plan_for(Problem(graph=PAIR, machine=machine_of(3), time_ns=times))
    fast = 1 if slow == 0 else 0
    assert (known(plan).device, known(plan).metrics.step_time_ns, plan.gain) == (fast, 20, 0.5)
    assert gain_words(plan) == f"50.0% less than d{fast} alone"
    named = captured_order(plan)
    assert (named is None) == (slow != 0)
    if named is not None and named[1].metrics is not None:
        assert (named[0], named[1].metrics.step_time_ns) == (0, 200)


def test_a_faster_device_that_is_too_small_is_not_what_a_plan_is_compared_with() -> None:
    """Alone d0 takes 2 ns but holds 7 of 8 bytes: d1's 200 count."""
    times = np.array([[1, 100], [1, 100]])
    outputs = graph_of({"a": ("", 4), "b": ("a", 4)})
    plan = plan_for(Problem(graph=outputs, machine=machine_of(2), time_ns=times, memory_limits_bytes=(7, 8)))
    assert (known(plan).device, known(plan).metrics.step_time_ns) == (1, 200)


def test_where_the_captured_order_fits_nowhere_an_order_that_fits_one_device_counts() -> None:
    """Captured, a and b are held at once, 17 bytes with a reader; reader after maker 8 + 1 + 1."""
    graph = graph_of({"a": ("", 8), "b": ("", 8), "c": ("a", 1), "d": ("b", 1), "e": ("c d", 0)})
    plan = plan_for(problem_of(graph, machine_of(2), 5, memory_limits_bytes=(10, 10)))
    assert (known(plan).order, known(plan).metrics.bytes_over_limit) == ("dfs", 0)
    assert one_device_words(plan, known(plan)) == "d0 (any), dfs order"


def test_where_nothing_fits_one_device_no_gain_is_told() -> None:
    """Three outputs of 4 bytes, kept to the end, and two devices of 8."""
    graph = graph_of({"a": ("", 4), "b": ("", 4), "c": ("", 4)})
    outputs = replace(graph, tensors=tuple(replace(tensor, is_output=True) for tensor in graph.tensors))
    plan = plan_for(problem_of(outputs, machine_of(2), 5, memory_limits_bytes=(8, 8)))
    assert (plan.status, plan.gain) == ("feasible", None)
    assert known(plan).metrics.bytes_over_limit == 4
    assert gain_words(plan) == "where no order tried fits one device"


def test_a_plan_worse_than_one_device_says_so() -> None:
    """Pinned apart by hand: 2 ops of 10 ns and a transfer of 30 between, 50, where one device takes 20."""
    graph = graph_of({"a": ("", 4), "b": ("a", 4)})
    machine = machine_of(2, Link(latency_ns=30))
    apart = plan_for(problem_of(graph, machine, 10, constraints=Constraints(pins=(("a", "d0"), ("b", "d1")))))
    alone = plan_for(problem_of(graph, machine, 10))
    assert known(apart).num_elsewhere == 1
    assert one_device_words(apart, known(apart)) == "d0 (any) but for 1 op that must run elsewhere, captured order"
    worse = replace(apart, one_device=alone.one_device)
    assert gain_words(worse) == "150.0% more than d0 alone"
    assert gain_words(alone) == "no gain over d0 alone"


def test_on_one_device_the_order_alone_is_compared() -> None:
    """Captured 17 bytes, a reader after its maker 10: 41.2% less."""
    graph = graph_of({"a": ("", 8), "b": ("", 8), "c": ("a", 1), "d": ("b", 1), "e": ("c d", 0)})
    assert gain_words(plan_for(problem_of(graph, machine_of(1), objective="peak-memory"))) == (
        "41.2% less than the captured order"
    )
    assert gain_words(plan_for(problem_of(graph, machine_of(1)))) == ""


def test_the_checker_does_not_let_one_device_be_slower_than_it_is() -> None:
    problem = problem_of(PAIR, machine_of(2), 10)
    plan = plan_for(problem)
    slower = replace(known(plan), metrics=replace(known(plan).metrics, step_time_ns=2000))
    assert check_plan(plan, PAIR, problem.time_ns) == []
    assert check_plan(replace(plan, one_device=slower), PAIR, problem.time_ns) == [
        "d0 alone takes 20 ns, not 2000 as the plan says"
    ]
