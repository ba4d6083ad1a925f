"""Hosts that launch work, from the machine to the explanation of a plan."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from instances import graph_of, names_in_order, plan_of, problem_of
from strategies import problems

from placewright import _core
from placewright.analysis.critical_path import launches_of
from placewright.analysis.explain import explain
from placewright.bounds import launches, launches_and_work, lower_bound
from placewright.graph import Graph
from placewright.machine import Device, LaunchMode, Link, Machine
from placewright.methods.table import METHODS, make_method
from placewright.plans.assemble import assemble_plan
from placewright.plans.record import WAITS_FOR_LAUNCH, ScheduledOp, Transfer
from placewright.problem import Problem
from placewright.search.run.budget import Budget
from placewright.search.run.result import Result, Solution
from placewright.search.run.search_run import SearchRun
from placewright.terminal.explain_tables import explain_tables
from placewright.terminal.tables import drawn
from placewright.verification.checker import check_plan

EIGHT = graph_of(dict.fromkeys("abcdefgh", ("", 1)))


def gpus(count: int, launch: LaunchMode = "host-thread", overhead_ns: int = 5, link: Link | None = None) -> Machine:
    devices = tuple(Device(name=f"gpu{index}", kind="any", launch_overhead_ns=overhead_ns) for index in range(count))
    return Machine(name="gpus", devices=devices, links=((link or Link(latency_ns=3),) * count,) * count, launch=launch)


def solved(problem: Problem, solver: str = "auto") -> Result:
    return make_method(solver).solve(problem, SearchRun(Budget(evaluations=500)))


@pytest.mark.parametrize(
    ("launch", "step_time_ns"),
    [
        ("host-thread", 42),  # 8 launches of 5 ns by one thread, then the last op
        ("device-threads", 12),  # 2 launches by each of four threads, then the last op
        ("graphs", 4),  # 2 ops of 2 ns on each device
    ],
)
def test_short_ops_on_four_devices_take_as_long_as_their_launches(launch: LaunchMode, step_time_ns: int) -> None:
    problem = problem_of(EIGHT, gpus(4, launch), 2)
    assert solved(problem).metrics.step_time_ns == lower_bound(problem).value == step_time_ns


def test_a_launch_bound_network_on_one_device_is_proven_optimal_without_a_search() -> None:
    # 300 ops of 2 ns in layers of three: 300 launches of 5 ns and the last op
    names = [f"op{index}" for index in range(300)]
    graph = graph_of({name: (names[i - 3] if i >= 3 else "", 1) for i, name in enumerate(names)})
    problem = problem_of(graph, gpus(1), 2)
    result = solved(problem)
    assert (result.metrics.step_time_ns, result.stopped_because) == (1502, "optimal")
    assert launches(problem).value == 1502
    assert result.evaluations < 100  # baselines alone


def test_hosts_and_devices_that_launch_themselves_share_the_work_in_the_bound() -> None:
    # A GPU does each of 8 ops in 1 ns after a launch of 5; a CPU, which has no host, takes 5 ns each. Four ops each:
    # the CPU is done at 20, the GPU at 21. Of the weighted sum no split of the work is below 20.
    cpu = Device(name="cpu0", kind="cpu", launch_overhead_ns=5, launches_itself=True)
    machine = replace(gpus(2), devices=(cpu, gpus(1).devices[0]))
    problem = Problem(graph=EIGHT, machine=machine, time_ns=np.array([[5, 1]] * 8))
    assert launches(problem).value <= 6  # the CPU could take all but one
    assert 18 <= launches_and_work(problem).value <= 20
    assert solved(problem).metrics.step_time_ns == 21


def test_annealing_sends_fewer_tensors_where_each_transfer_is_launched() -> None:
    # Two chains of 20 ops of 40 ns that start from one op: apart they take 840 ns and need one transfer.
    ops = {"start": ("", 1)}
    for chain in "ab":
        for index in range(20):
            ops[f"{chain}{index}"] = (f"{chain}{index - 1}" if index else "start", 1)
    problem = problem_of(graph_of(ops), gpus(2), 40)
    result = solved(problem, "schedule-annealing")
    assert result.metrics.num_transfers == 1
    assert result.metrics.step_time_ns <= 21 * 40 + 5 + 3 + 5


def test_dispatching_charges_no_launch_to_an_op_that_takes_no_time() -> None:
    # Each device has a host that launches in 5 ns, links are free. On gpu0 y runs 5-14; on gpu1 b 5-6 and, launched
    # at 10, c 10-13. Then z is there at once and not launched at 15, so that at 14 its reader r goes before x, which is
    # shorter.
    graph = graph_of({"y": ("", 1), "b": ("", 1), "c": ("b", 1), "x": ("", 1), "z": ("b", 1), "r": ("z", 1)})
    problem = problem_of(graph, gpus(2, "device-threads", link=Link()), [9, 1, 3, 1, 0, 3])
    order = _core.dispatch_order(problem.core, np.array([0, 1, 1, 0, 1, 0], np.int32))
    assert names_in_order(problem, order) == "y b c z r x"


def chain_plan(launch: LaunchMode = "host-thread") -> tuple[Graph, Problem, Solution]:
    """a -> b on one device: a runs 5-7, b is launched at 10 and runs 10-12."""
    graph = graph_of({"a": ("", 1), "b": ("a", 1)})
    problem = problem_of(graph, gpus(1, launch), 2)
    order = np.array([[0, -1], [1, -1]], np.int32)
    return graph, problem, Solution(device_of=np.zeros(2, np.int32), order=order)


def test_a_plan_says_that_a_step_waited_for_its_launch_and_explains_the_time() -> None:
    graph, problem, solution = chain_plan()
    plan = plan_of(problem, solution)
    assert [(op.start_ns, op.finish_ns, op.waits_for) for op in plan.ops] == [(5, 7, -2), (10, 12, WAITS_FOR_LAUNCH)]
    assert check_plan(plan, graph, problem.time_ns) == []
    found = explain(plan)
    assert (found.path.launching_ns, found.path.compute_ns, found.path.waiting_ns) == (10, 2, 0)
    assert found.path.num_launches == 2
    assert (found.idle[0].busy_ns, found.idle[0].launch_ns, found.idle[0].others_ns) == (4, 8, 0)
    text = drawn(explain_tables(plan, found))
    assert "critical path: 2 launches, then 1 step, 0 changes of device" in text
    assert "the host launches ops one after another: 2 launches in 10 ns, 83% of the step" in text


def test_each_host_thread_launches_one_step_after_another() -> None:
    # a on gpu0 is launched until 5, its tensor until 10, b on gpu1 until 15; with a thread each, gpu1's begins at 0.
    graph = graph_of({"a": ("", 1), "b": ("a", 1)})
    order = np.array([[0, -1], [0, 1], [1, -1]], np.int32)
    solution = Solution(device_of=np.array([0, 1], np.int32), order=order)

    def launched(launch: LaunchMode) -> list[tuple[int, int, int, int]]:
        made = launches_of(plan_of(problem_of(graph, gpus(2, launch), 2), solution))
        return [(each.device, each.host, each.start_ns, each.finish_ns) for each in made]

    assert launched("host-thread") == [(0, 0, 0, 5), (0, 0, 5, 10), (1, 0, 10, 15)]
    assert launched("device-threads") == [(0, 0, 0, 5), (0, 0, 5, 10), (1, 1, 0, 5)]
    assert launched("graphs") == []


@given(problems())
def test_no_step_starts_before_it_is_launched(problem: Problem) -> None:
    result = METHODS["list"].solve(problem, SearchRun())
    plan = assemble_plan(problem, result, solver="list", seconds=0.0)
    made = {launch.step.position: launch.finish_ns for launch in launches_of(plan)}
    steps: list[ScheduledOp | Transfer] = [*plan.ops, *plan.transfers]
    for step in steps:
        assert step.start_ns >= made.get(step.position, 0)
        if step.waits_for == WAITS_FOR_LAUNCH:
            assert step.start_ns == made[step.position]


def test_the_checker_finds_a_launch_that_does_not_explain_the_start() -> None:
    graph, problem, solution = chain_plan("graphs")
    plan = plan_of(problem, solution)
    assert check_plan(plan, graph, problem.time_ns) == []
    # With recorded graphs nobody launches: neither the op that starts at 0 nor the one after it waits for that.
    for index in (0, 1):
        ops = list(plan.ops)
        ops[index] = replace(ops[index], waits_for=WAITS_FOR_LAUNCH)
        found = check_plan(replace(plan, ops=tuple(ops)), graph, problem.time_ns)
        assert "waiting for position -2 does not explain" in " ".join(found)
