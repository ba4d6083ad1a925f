"""HEFT, and the insertion-based schedule it shares with CPOP."""

from __future__ import annotations

import sys
from types import FrameType

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from instances import devices_by_name, graph_of, machine_of, problem_of
from paper_example import paper_problem
from strategies import problems

from placewright import _core
from placewright.constraints import Constraints
from placewright.machine import Link, Machine
from placewright.problem import Problem
from placewright.search.budget import Budget
from placewright.search.heft import Heft, heft_schedule
from placewright.search.idle_slots import IdleSlots


def placement(problem: Problem) -> dict[str, int]:
    return devices_by_name(problem, Heft().solve(problem, Budget(), 0).solution.device_of)


def test_the_papers_example_takes_80() -> None:
    # Figure 3 of the paper: n2 and n8 on the first processor; n4, n6, n9, n10 on the second; the others on the third.
    problem = paper_problem()
    schedule = heft_schedule(problem)
    assert schedule.step_time_ns == 80
    assert schedule.plan.device_of == [2, 0, 2, 1, 2, 1, 2, 0, 1, 1]


def test_a_short_op_is_inserted_before_one_that_was_placed_earlier() -> None:
    # Ranks: a 9 + 1 + 8, b 8, c 3. a runs on d1 until 9, b on d0 from 9 + 1, and c, placed last, fits before b there.
    # Starting at one instant, c and a stand in the order as they finish.
    graph = graph_of({"a": ("", 1), "b": ("a", 1), "c": ("", 1)})
    pins = Constraints(pins=(("a", "d1"), ("b", "d0"), ("c", "d0")))
    problem = problem_of(graph, machine_of(2, Link(latency_ns=1)), [9, 8, 3], constraints=pins)
    schedule = heft_schedule(problem)
    assert schedule.plan.start == [0, 10, 0]
    assert schedule.candidate("heft").order.tolist() == [2, 0, 1]


def test_an_op_without_time_starts_between_two_that_leave_no_gap() -> None:
    # a 0 to 5 and b 5 to 9 on one device; the zero-time z is free to start at 0, before a, though its rank is lowest.
    graph = graph_of({"a": ("", 1), "b": ("a", 1), "z": ("", 1)})
    schedule = heft_schedule(problem_of(graph, machine_of(1), [5, 4, 0]))
    assert schedule.plan.start == [0, 5, 0]
    assert schedule.candidate("heft").order.tolist() == [2, 0, 1]


def test_a_group_follows_its_first_op_and_pins_hold() -> None:
    # b may stand on d1 only, and d goes with it although moving there costs.
    graph = graph_of({"a": ("", 4), "b": ("a", 4), "c": ("b", 4), "d": ("c", 4)})
    constraints = Constraints(pins=(("b", "d1"),), colocations=(("b", "d"),))
    problem = problem_of(graph, machine_of(2, Link(latency_ns=3)), 10, constraints=constraints)
    found = placement(problem)
    assert found["b"] == found["d"] == 1


def test_a_signal_across_devices_costs_the_latency_and_an_order_nothing() -> None:
    # b must follow a and is pinned away from it. Signal: a's finish 5 + 2. Order: b may start with a, and stands later.
    graph = graph_of({"a": ("", 1), "b": ("", 1)}, controls={"b": "a"})
    pins = Constraints(pins=(("a", "d0"), ("b", "d1")))
    for control, start in (("signal", 7), ("transfer", 7), ("order", 0)):
        machine = machine_of(2, Link(latency_ns=2))
        problem = problem_of(graph, machine, [5, 0], constraints=pins, control=control)
        schedule = heft_schedule(problem)
        assert schedule.plan.start[1] == start
        assert schedule.candidate("heft").order.tolist() == [0, 1]


def test_where_control_is_only_an_order_the_simulation_may_be_faster_than_planned() -> None:
    # d0: x 10, then a 2; d1: b 5, which must stand after a. HEFT lets b wait for a's start, 10 + 5 = 15; it need not.
    graph = graph_of({"x": ("", 1), "a": ("x", 1), "b": ("", 1)}, controls={"b": "a"})
    pins = Constraints(pins=(("x", "d0"), ("a", "d0"), ("b", "d1")))
    problem = problem_of(graph, machine_of(2), [10, 2, 5], constraints=pins, control="order")
    assert heft_schedule(problem).step_time_ns == 15
    assert Heft().solve(problem, Budget(), 0).metrics.step_time_ns == 12


@settings(max_examples=60)
@given(problem=problems(max_ops=10))
def test_where_links_are_free_the_simulation_takes_as_long_as_planned(problem: Problem) -> None:
    machine = machine_of(problem.machine.num_devices)
    free = Problem(graph=problem.graph, machine=machine, time_ns=problem.time_ns, control="signal")
    # One evaluation is for the paper's rank.
    assert Heft().solve(free, Budget(evaluations=1), 0).metrics.step_time_ns == heft_schedule(free).step_time_ns


def test_ranks_take_the_least_or_largest_time_and_the_slowest_link() -> None:
    # a takes 4 or 10 ns, b 6 or 2; links of 1 and 5 ns, 3 in the mean.
    machine = Machine(
        name="unequal",
        devices=machine_of(2).devices,
        links=((Link(), Link(latency_ns=1)), (Link(latency_ns=5), Link())),
    )
    graph = graph_of({"a": ("", 0), "b": ("a", 0)})
    core = Problem(graph=graph, machine=machine, time_ns=np.array([[4, 10], [6, 2]])).core
    assert _core.bottom_levels(core).tolist() == [7 + 3 + 4, 4]
    assert _core.bottom_levels(core, _core.Outlook.best).tolist() == [4 + 0 + 2, 2]
    assert _core.bottom_levels(core, _core.Outlook.worst).tolist() == [10 + 5 + 6, 6]


@given(tasks=st.lists(st.tuples(st.integers(0, 40), st.sampled_from([1, 2, 3, 7])), max_size=40))
@settings(max_examples=60)
def test_idle_slots_are_found_where_trying_every_moment_finds_them(tasks: list[tuple[int, int]]) -> None:
    slots, taken = IdleSlots(), np.zeros(4000, bool)
    for ready, duration in tasks:
        expected = next(moment for moment in range(ready, 4000) if not taken[moment : moment + duration].any())
        assert slots.earliest(ready, duration) == expected
        slots.occupy(expected, duration)
        taken[expected : expected + duration] = True


def test_idle_slots_stay_exact_over_many_chunks() -> None:
    # 600 ops of 1 to 4 ns with gaps between them: more slots than one chunk holds.
    random = np.random.default_rng(0)
    slots, taken = IdleSlots(), np.zeros(9000, bool)
    for ready, duration in zip(
        random.integers(0, 4000, 600).tolist(), random.integers(1, 5, 600).tolist(), strict=True
    ):
        expected = next(moment for moment in range(ready, 9000) if not taken[moment : moment + duration].any())
        assert slots.earliest(ready, duration) == expected
        slots.occupy(expected, duration)
        taken[expected : expected + duration] = True


def test_placing_is_not_quadratic_in_the_number_of_ops() -> None:
    # Four times the ops run 7.4 times as many lines of Python; 16 times would be quadratic.
    def chains(num_ops: int) -> Problem:
        names = [f"op{index}" for index in range(num_ops)]
        reads = {n: (f"{names[i * 7 // 8]} {names[i - 1]}" if i > 8 and i % 3 else "", 8) for i, n in enumerate(names)}
        machine = machine_of(8, Link(latency_ns=3))
        problem = problem_of(graph_of(reads), machine, [1 + i * i % 17 for i in range(num_ops)])
        assert problem.core.num_ops == num_ops
        return problem

    def lines_run(problem: Problem) -> int:
        count = 0

        def count_line(frame: FrameType, event: str, argument: object) -> object:
            nonlocal count
            count += event == "line"
            return count_line

        sys.settrace(count_line)
        Heft().solve(problem, Budget(), 0)
        sys.settrace(None)
        return count

    assert lines_run(chains(2_000)) < 10 * lines_run(chains(500))
