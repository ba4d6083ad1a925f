"""Plans of several devices that run ops again within their limits: simulated, checked, kept in files and compared with
all that can be."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from training_steps import ONE_DEVICE, training_step

from placewright.graph import Graph
from placewright.machine import Link, Machine
from placewright.methods.table import make_method
from placewright.plans.assemble import assemble_plan
from placewright.plans.file import read_plan, write_plan
from placewright.plans.graph_match import match_graph
from placewright.plans.record import Plan
from placewright.problem import Problem
from placewright.problem.constraints import Constraints
from placewright.rematerialization.several_devices import rematerialize_on_several
from placewright.search.run.budget import Budget
from placewright.search.run.result import Solution
from placewright.search.run.search_run import SearchRun
from placewright.verification.checker import check_plan


def devices(count: int, link: Link, *, blocking: bool = False) -> Machine:
    """Equal devices, each joined with every other."""
    return Machine(
        name="several",
        devices=tuple(replace(ONE_DEVICE.devices[0], name=f"cpu{number}") for number in range(count)),
        links=tuple(tuple(Link() if i == j else link for j in range(count)) for i in range(count)),
        transfer_model="blocking" if blocking else "overlapped",
        launch="graphs",
    )


def on_machine(graph: Graph, machine: Machine) -> Problem:
    times = np.array([[op.time_ns or 0] * machine.num_devices for op in graph.ops], np.int64)
    return Problem(graph=graph, machine=machine, time_ns=times)


def free(problem: Problem, solver: str = "heft") -> Solution:
    """What a method finds where there is no limit."""
    return make_method(solver).solve(problem, SearchRun()).solution


@st.composite
def tight_problems(draw: st.DrawFn) -> Problem:
    """Of two or three devices, with limits below the peaks of a placement."""
    graph = training_step(draw(st.integers(0, 2**32)), draw(st.integers(2, 12)))
    link = Link(
        bandwidth_bytes_per_s=draw(st.sampled_from([1e9, 10e9, 100e9])), latency_ns=draw(st.sampled_from([0, 2]))
    )
    problem = on_machine(graph, devices(draw(st.sampled_from([2, 2, 3])), link, blocking=draw(st.booleans())))
    problem = replace(problem, control=draw(st.sampled_from(["signal", "signal", "order", "transfer"])))
    if draw(st.booleans()):
        problem = replace(problem, constraints=Constraints(pins=((graph.ops[0].name, "cpu1"),)))
    peak = problem.core.simulate(*_arrays(free(problem, "layers"))).peak_memory_bytes
    share = draw(st.sampled_from([0.9, 0.7, 0.5, 0.3]))
    return replace(problem, memory_limits_bytes=(int(peak * share),) * problem.machine.num_devices)


def _arrays(solution: Solution) -> tuple[np.ndarray, np.ndarray]:
    return solution.device_of, solution.order


def planned(problem: Problem, evaluations: int = 40, keep: tuple[str, ...] = ()) -> Plan:
    result = make_method("layers").solve(problem, SearchRun())
    anywhere = replace(problem, memory_limits_bytes=(None,) * problem.machine.num_devices)
    run = SearchRun(Budget(evaluations=evaluations))
    again = rematerialize_on_several(problem, run, (free(anywhere), result.solution), keep)
    return assemble_plan(problem, result, solver="auto", seconds=0.0, again=again, options={"keep": list(keep)})


@given(tight_problems())
def test_plans_are_right(problem: Problem) -> None:
    plan = planned(problem)
    assert check_plan(plan, problem.graph, problem.time_ns) == []
    assert match_graph(plan, problem.graph) == []
    device_of = plan.device_of
    assert all(device_of[rerun.name] == device_of[rerun.op] for rerun in plan.reruns)


@given(problem=tight_problems())
def test_a_plan_file_keeps_reruns(problem: Problem, tmp_path_factory: pytest.TempPathFactory) -> None:
    plan, path = planned(problem), tmp_path_factory.mktemp("plan") / "plan.json"
    write_plan(plan, path)
    assert read_plan(path) == plan
