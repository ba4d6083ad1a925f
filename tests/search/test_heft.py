"""HEFT, and the insertion-based schedule it shares with CPOP and `insertion`."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from instances import devices_by_name, graph_of, machine_of, problem_of
from paper_example import paper_problem
from reference_insertion import in_order, insert, optimistic_costs
from strategies import problems

import placewright._core as _core
from placewright.machine import Link, Machine
from placewright.problem import Problem
from placewright.problem.constraints import Constraints
from placewright.search.constructive.insertion import INSERTION, Heft
from placewright.search.run.budget import Budget
from placewright.search.run.search_run import SearchRun


def placement(problem: Problem) -> dict[str, int]:
    return devices_by_name(problem, Heft().solve(problem, SearchRun()).solution.device_of)


def heft_schedule(problem: Problem) -> tuple[list[int], list[int], int]:
    """The paper's own schedule, before tensors queue at the links: devices, ops by start, and its length in ns."""
    sequence = _core.bottom_level_order(problem.core)
    device_of, ops, step_time_ns = _core.insertion_schedule(problem.core, sequence, links_queue=False)
    return device_of.tolist(), ops.tolist(), step_time_ns


def starts(problem: Problem) -> list[int]:
    """Return start times in the paper's schedule, by the reference that the tests below hold the core to."""
    return insert(problem, _core.bottom_level_order(problem.core).tolist()).start


def test_the_papers_example_takes_80() -> None:
    # Figure 3 of the paper: n2 and n8 on the first processor; n4, n6, n9, n10 on the second; the others on the third.
    device_of, _, step_time_ns = heft_schedule(paper_problem())
    assert step_time_ns == 80
    assert device_of == [2, 0, 2, 1, 2, 1, 2, 0, 1, 1]


def test_a_short_op_is_inserted_before_one_that_was_placed_earlier() -> None:
    # Ranks: a 9 + 1 + 8, b 8, c 3. a runs on d1 until 9, b on d0 from 9 + 1, and c, placed last, fits before b there.
    # c and a start at one instant, so they are ordered by finish.
    graph = graph_of({"a": ("", 1), "b": ("a", 1), "c": ("", 1)})
    pins = Constraints(pins=(("a", "d1"), ("b", "d0"), ("c", "d0")))
    problem = problem_of(graph, machine_of(2, Link(latency_ns=1)), [9, 8, 3], constraints=pins)
    assert starts(problem) == [0, 10, 0]
    assert heft_schedule(problem)[1] == [2, 0, 1]


def test_an_op_without_time_starts_between_two_that_leave_no_gap() -> None:
    # a 0 to 5 and b 5 to 9 on one device; the zero-time z is free to start at 0, before a, though its rank is lowest.
    graph = graph_of({"a": ("", 1), "b": ("a", 1), "z": ("", 1)})
    problem = problem_of(graph, machine_of(1), [5, 4, 0])
    assert starts(problem) == [0, 5, 0]
    assert heft_schedule(problem)[1] == [2, 0, 1]


def test_a_signal_across_devices_costs_the_latency_and_an_order_nothing() -> None:
    # b must follow a and is pinned away from it. Signal: a's finish 5 + 2. Order: b may start with a, but comes later.
    graph = graph_of({"a": ("", 1), "b": ("", 1)}, controls={"b": "a"})
    pins = Constraints(pins=(("a", "d0"), ("b", "d1")))
    for control, start in (("signal", 7), ("transfer", 7), ("order", 0)):
        machine = machine_of(2, Link(latency_ns=2))
        problem = problem_of(graph, machine, [5, 0], constraints=pins, control=control)
        assert starts(problem)[1] == start
        assert heft_schedule(problem)[1] == [0, 1]


def test_where_control_is_only_an_order_the_simulation_may_be_faster_than_planned() -> None:
    # d0: x 10, then a 2; d1: b 5, which must come after a. HEFT lets b wait for a's start, 10 + 5 = 15; it need not.
    graph = graph_of({"x": ("", 1), "a": ("x", 1), "b": ("", 1)}, controls={"b": "a"})
    pins = Constraints(pins=(("x", "d0"), ("a", "d0"), ("b", "d1")))
    problem = problem_of(graph, machine_of(2), [10, 2, 5], constraints=pins, control="order")
    assert heft_schedule(problem)[2] == 15
    assert Heft().solve(problem, SearchRun()).metrics.step_time_ns == 12


@settings(max_examples=60)
@given(problem=problems(max_ops=10))
def test_where_links_are_free_the_simulation_takes_as_long_as_planned(problem: Problem) -> None:
    machine = machine_of(problem.machine.num_devices)
    free = Problem(graph=problem.graph, machine=machine, time_ns=problem.time_ns, control="signal")
    # One evaluation is for the paper's rank.
    assert Heft().solve(free, SearchRun(Budget(evaluations=1))).metrics.step_time_ns == heft_schedule(free)[2]


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
    # One of three pairs needs a link, of 3 ns in the mean: 1.
    assert _core.bottom_levels(core, _core.Outlook.pairs).tolist() == [7 + 1 + 4, 4]


@settings(max_examples=200)
@given(problem=problems(max_ops=10), data=st.data())
def test_ops_are_inserted_where_the_slow_reference_inserts_them(problem: Problem, data: st.DataObject) -> None:
    core = problem.core
    links_queue, looks_ahead = data.draw(st.booleans()), data.draw(st.booleans())
    costs = _core.optimistic_costs(core)
    assert costs.tolist() == optimistic_costs(problem)
    sequence = data.draw(st.sampled_from([_core.bottom_level_order(core), _core.optimistic_order(core, costs)]))
    group, allowed = (array.tolist() for array in problem.groups)
    devices = range(problem.machine.num_devices)
    chosen = [data.draw(st.sampled_from([-1, *(d for d in devices if mask >> d & 1)])) for mask in allowed]
    fixed = np.array([chosen[first] for first in group], np.int32)
    outlook = costs if looks_ahead else None
    device_of, ops, step_time_ns = _core.insertion_schedule(core, sequence, links_queue, fixed, outlook)
    seen = costs.tolist() if looks_ahead else ()
    expected = insert(problem, sequence.tolist(), links_queue=links_queue, fixed=fixed.tolist(), outlook=seen)
    assert device_of.tolist() == expected.device_of
    assert step_time_ns == expected.step_time_ns
    assert ops.tolist() == in_order(problem, expected, sequence.tolist())


def test_gaps_are_found_among_hundreds() -> None:
    # 400 ops of 1 to 7 ns on two devices, whose tensors leave gaps of all lengths before their readers.
    random = np.random.default_rng(0)
    names = [f"op{index}" for index in range(400)]
    reads = {n: (names[random.integers(i)] if i % 3 else "", int(random.integers(1, 9))) for i, n in enumerate(names)}
    machine = machine_of(2, Link(bandwidth_bytes_per_s=5e8))
    problem = problem_of(graph_of(reads), machine, random.integers(1, 8, 400).tolist())
    sequence = _core.bottom_level_order(problem.core)
    for links_queue in (False, True):
        device_of, _, step_time_ns = _core.insertion_schedule(problem.core, sequence, links_queue)
        expected = insert(problem, sequence.tolist(), links_queue=links_queue)
        assert (device_of.tolist(), step_time_ns) == (expected.device_of, expected.step_time_ns)


def test_an_op_stays_where_its_tensor_is_when_that_would_wait_for_the_link() -> None:
    # Five ops of 6 ns on d0, each with a tensor of 10 ns to move: the first two run there until 12, the third elsewhere
    # from 10 to 16, the fourth at home until 18. The fifth would end at 24 at home; moved, at 22 if the link carried
    # both tensors at once, but the second arrives at 20.
    tensors = {f"r{i}": ("", 10) for i in range(5)}
    graph = graph_of({**tensors, **{f"s{i}": (f"r{i}", 1) for i in range(5)}})
    pins = Constraints(pins=tuple((name, "d0") for name in tensors))
    machine = machine_of(2, Link(bandwidth_bytes_per_s=1e9))
    problem = problem_of(graph, machine, [0] * 5 + [6] * 5, constraints=pins)
    sequence = _core.bottom_level_order(problem.core)
    free, queueing = (_core.insertion_schedule(problem.core, sequence, links_queue) for links_queue in (False, True))
    assert (free[2], queueing[2]) == (22, 24)
    assert placement(problem)["s4"] == 1
    assert Heft().solve(problem, SearchRun()).metrics.step_time_ns == 26
    assert INSERTION.solve(problem, SearchRun()).metrics.step_time_ns == 24
