"""A plan is compared with the best single device, whichever the user names first."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from instances import graph_of, machine_of, problem_of

import placewright
from placewright.analysis.outcome import captured_order, gain_words, one_device_words, rival_words
from placewright.graph import Graph, Phase
from placewright.machine import Link
from placewright.methods.table import make_method
from placewright.plans.assemble import assemble_plan
from placewright.plans.one_device import within_one_device
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
    """The captured order holds a and b at once, 17 bytes with a reader; with each reader after its maker 8 + 1 + 1."""
    graph = graph_of({"a": ("", 8), "b": ("", 8), "c": ("a", 1), "d": ("b", 1), "e": ("c d", 0)})
    plan = plan_for(problem_of(graph, machine_of(2), 5, memory_limits_bytes=(10, 10)))
    assert (known(plan).order, known(plan).metrics.bytes_over_limit) == ("dfs", 0)
    assert one_device_words(plan, known(plan)) == "d0 (any), dfs order"


def test_where_nothing_fits_one_device_no_gain_is_told() -> None:
    """Three outputs of 4 bytes, kept to the end, and two devices of 8; no two devices run three ops of 5 ns in 7.5."""
    graph = graph_of({"a": ("", 4), "b": ("", 4), "c": ("", 4)})
    outputs = replace(graph, tensors=tuple(replace(tensor, is_output=True) for tensor in graph.tensors))
    plan = plan_for(problem_of(outputs, machine_of(2), 5, memory_limits_bytes=(8, 8)))
    assert (plan.status, plan.gain) == ("optimal", None)
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
        "'d0' alone takes 20 ns, not 2000 ns as the plan says, or other memory",
        "the plan is compared with 'd0' alone, and 'd0' alone is better",
    ]
    named = replace(known(plan), order="heft")
    assert check_plan(replace(plan, one_device=named), PAIR, problem.time_ns) == [
        "the plan is compared with 'd0' alone in the order 'heft', which is none of one device"
    ]


def read_late(scale: int = 1, phase: Phase = "") -> Graph:
    """Return a graph where b reads a's result at once and e at the end: 21 bytes while c runs; 12 if a runs twice."""
    graph = graph_of(
        {"a": ("", 10 * scale), "b": ("a", scale), "c": ("b", 10 * scale), "d": ("c", scale), "e": ("a d", scale)}
    )
    return replace(graph, ops=tuple(replace(op, kind="elementwise", phase=phase) for op in graph.ops))


READ_LATE = read_late()


def on_a_small_fast_and_a_large_slow_device(limit: int = 13, **rest: Any) -> Problem:
    """d0 takes 1 ns for an op, d1 100."""
    times = np.tile(np.array([[1, 100]]), (5, 1))
    limits = (limit, 100)
    return Problem(graph=READ_LATE, machine=machine_of(2), time_ns=times, memory_limits_bytes=limits, **rest)


def test_a_device_that_holds_the_step_where_ops_run_again_is_what_a_plan_is_compared_with() -> None:
    """d1 alone takes 500 ns, and was what plans were compared with; d0 runs a twice, 6 ns."""
    problem = on_a_small_fast_and_a_large_slow_device()
    within = within_one_device(problem, 0, None, ())
    assert within is not None
    assert (within.device, within.metrics.step_time_ns, within.metrics.busy_ns) == (0, 6, (6, 0))
    assert within.metrics.peak_bytes[0] <= 13
    result = make_method("single-device").solve(problem, SearchRun(Budget(evaluations=30)))
    plan = assemble_plan(problem, result, solver="single-device", seconds=0.25, within=within)
    assert known(plan) == within
    assert one_device_words(plan, within) == "d0 (any) with recomputation"
    assert gain_words(plan) == "8233.3% more than d0 alone with recomputation"
    assert list(rival_words(plan)) == ["d0 alone with recomputation is faster: plan for any and no other device"]
    assert check_plan(plan, READ_LATE, problem.time_ns) == []


@pytest.mark.parametrize(
    "problem",
    [
        on_a_small_fast_and_a_large_slow_device(limit=11),  # e reads 10 + 1 and makes 1
        on_a_small_fast_and_a_large_slow_device(limit=30),  # fits as it is
        on_a_small_fast_and_a_large_slow_device(objective="peak-memory"),
        on_a_small_fast_and_a_large_slow_device(constraints=Constraints(pins=(("a", "d1"),))),
    ],
    ids=["too small", "large enough", "peak memory", "pinned"],
)
def test_nothing_runs_again_where_that_cannot_help(problem: Problem) -> None:
    assert within_one_device(problem, 0, None, ()) is None


def test_what_is_to_run_once_runs_once_on_one_device_too() -> None:
    assert within_one_device(on_a_small_fast_and_a_large_slow_device(), 0, None, ["*"]) is None


def test_a_training_step_that_no_accelerator_holds_says_what_it_is_not_compared_with(tmp_path: Path) -> None:
    """The step takes 210 MiB and the GPU has 150: one of the two large tensors is moved or made again."""
    mib = 10 * 2**20
    graph = read_late(mib, "backward")
    words = "smaller batches with gradient accumulation on one device are not compared, they need the model: "
    plan = placewright.plan(graph, "cpu+rtx3090", memory_limit={"gpu0": 15 * mib}, evaluations=50)
    assert (plan.machine.devices[known(plan).device].name, known(plan).order) == ("gpu0", "rematerialization")
    assert [line.startswith(words) for line in rival_words(plan)][-1]
    placewright.save(plan, tmp_path / "plan.json")
    assert placewright.load(tmp_path / "plan.json") == plan
    assert not list(rival_words(placewright.plan(graph, "cpu+rtx3090", evaluations=50)))
