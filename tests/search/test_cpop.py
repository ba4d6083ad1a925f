"""CPOP: the critical path on one device."""

from __future__ import annotations

from hypothesis import given, settings
from instances import devices_by_name, graph_of, machine_of, problem_of
from paper_example import paper_problem
from reference_insertion import cpop_sequence_and_devices
from strategies import problems

import placewright._core as _core
from placewright.machine import Link
from placewright.problem import Problem
from placewright.problem.constraints import Constraints
from placewright.search.constructive.insertion import Cpop
from placewright.search.run.search_run import SearchRun

FORK = {"a": ("", 4), "b": ("a", 4), "c": ("a", 4), "d": ("b c", 4)}
#: The critical path is a, b, d: 5 + 20 + 5 ns, compared with c's 2.
TIMES = [5, 20, 2, 5]


def placement(problem: Problem) -> dict[str, int]:
    return devices_by_name(problem, Cpop().solve(problem, SearchRun()).solution.device_of)


def test_the_papers_example_takes_86_with_its_critical_path_on_the_second_processor() -> None:
    # Figure 3 of the paper: n1, n2, n9 and n10 on P2, where they take 16 + 19 + 12 + 7 = 54, less than 63 and 63.
    core = paper_problem().core
    sequence, fixed = _core.critical_path_first(core)
    device_of, _, step_time_ns = _core.insertion_schedule(core, sequence, links_queue=False, fixed=fixed)
    assert device_of[[0, 1, 8, 9]].tolist() == [1, 1, 1, 1]
    assert step_time_ns == 86


def test_the_critical_path_stays_on_one_device_though_another_is_idle() -> None:
    # Free links change nothing: a, b and d share a device, and c runs in parallel with b.
    found = placement(problem_of(graph_of(FORK), machine_of(2), TIMES))
    assert found == {"a": 0, "b": 0, "c": 1, "d": 0}


def test_the_critical_path_avoids_the_device_one_of_its_ops_may_not_use() -> None:
    problem = problem_of(graph_of(FORK), machine_of(2), TIMES, constraints=Constraints(forbids=(("d", "d0"),)))
    assert placement(problem) == {"a": 1, "b": 1, "c": 0, "d": 1}


def test_an_op_that_may_not_follow_the_path_is_placed_like_the_others() -> None:
    # a is pinned to d0, b and d to d1: most of the path goes to d1, a stays where it must.
    pins = (("a", "d0"), ("b", "d1"), ("d", "d1"))
    problem = problem_of(graph_of(FORK), machine_of(2, Link(latency_ns=50)), TIMES, constraints=Constraints(pins=pins))
    found = placement(problem)
    assert (found["a"], found["b"], found["d"]) == (0, 1, 1)


def test_what_shares_a_device_with_the_path_goes_with_it() -> None:
    problem = problem_of(graph_of(FORK), machine_of(2), TIMES, constraints=Constraints(colocations=(("c", "b"),)))
    assert placement(problem) == {"a": 0, "b": 0, "c": 0, "d": 0}


@settings(max_examples=150)
@given(problem=problems(max_ops=10))
def test_ranks_and_the_critical_path_are_those_of_the_slow_reference(problem: Problem) -> None:
    sequence, fixed = _core.critical_path_first(problem.core)
    assert (sequence.tolist(), fixed.tolist()) == cpop_sequence_and_devices(problem)
