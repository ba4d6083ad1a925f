"""Reasons for where an op or a module runs: what held it up, and what each other device would cost."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from instances import graph_of, machine_of, problem_of, sketch
from strategies import problems

from placewright.analysis.op_explanation import ModuleExplanation, OpExplanation, explain_op
from placewright.graph import Graph
from placewright.machine import Link
from placewright.methods.table import METHODS
from placewright.plans.assemble import assemble_plan
from placewright.plans.record import Plan
from placewright.problem import Problem
from placewright.problem.constraints import Constraints
from placewright.search.run.result import Solution, measure
from placewright.search.run.search_run import SearchRun
from placewright.support.errors import InputError
from placewright.terminal.op_tables import op_tables
from placewright.terminal.tables import drawn


def planned(problem: Problem, solver: str = "list") -> Plan:
    return assemble_plan(problem, METHODS[solver].solve(problem, SearchRun()), solver=solver, seconds=0.0)


def explained(problem: Problem, plan: Plan, op: str) -> OpExplanation:
    found = explain_op(plan, problem.graph, problem.time_ns, op)
    assert isinstance(found, OpExplanation)
    return found


def module_explained(problem: Problem, plan: Plan, module: str) -> ModuleExplanation:
    found = explain_op(plan, problem.graph, problem.time_ns, module)
    assert isinstance(found, ModuleExplanation)
    return found


#: a (10 ns) feeds b (20 ns) and c (30 ns); what it makes takes 5 ns to the other device.
FORK = graph_of({"a": ("", 8), "b": ("a", 8), "c": ("a", 8)})
TWO = machine_of(2, Link(latency_ns=5))


def fork(**constraints: object) -> Problem:
    return problem_of(FORK, TWO, [10, 20, 30], constraints=Constraints(**constraints))  # type: ignore[arg-type]


def test_every_device_is_tried_and_costed() -> None:
    # The captured order on d0: 10 + 20 + 30 = 60. With b on d1: there from 15 to 35, c on d0 from 10 to 40.
    problem = fork()
    found = explained(problem, planned(problem, "input-order"), "b")
    here, there = found.alternatives
    assert (here.device, here.step_time_ns, here.bytes_moved) == (0, 60, 0)
    assert (there.device, there.step_time_ns, there.bytes_moved) == (1, 40, 8)
    # Besides b's result, which nobody reads, a's or its copy is there.
    assert (here.peak_bytes, there.peak_bytes) == (16, 16)
    assert (there.op_time_ns, there.allowed) == (20, True)


def test_a_transfer_that_nobody_needs_any_more_is_dropped() -> None:
    problem = fork(pins=(("b", "1"),))
    plan = planned(problem)
    assert plan.metrics.num_transfers == 1
    # c cannot undo it, but a can: on d1, next to b, its result must come to d0 for c; both ways one transfer.
    found = explained(problem, plan, "a")
    assert [option.bytes_moved for option in found.alternatives] == [8, 8]
    everything_there = explained(problem, replace(plan), "c").alternatives[1]
    assert everything_there.bytes_moved == 8  # a to d1, where b and c share the copy


def test_a_transfer_that_would_come_too_late_is_moved_forward() -> None:
    # a, b on d0; then a's copy goes to d1 for c. On d1 b needs the copy before: from 15 to 35, then c to 65.
    problem = fork()
    order = np.array([[0, -1], [1, -1], [0, 1], [2, -1]], np.int32)
    solution = Solution(device_of=np.array([0, 0, 1], np.int32), order=order)
    result = METHODS["input-order"].solve(problem, SearchRun())
    result = replace(result, solution=solution, metrics=measure(problem, solution))
    plan = assemble_plan(problem, result, solver="by hand", seconds=0.0)
    option = explained(problem, plan, "b").alternatives[1]
    assert (option.step_time_ns, option.bytes_moved) == (65, 8)


def test_what_held_it_up_is_named() -> None:
    problem = fork(pins=(("c", "1"),))
    plan = planned(problem)
    found = explained(problem, plan, "c")
    # c waits for a's result, which leaves at 10 and arrives at 15; its own device was free all along.
    assert (found.waited_for, found.device_free_ns) == ("a:0 from d0", 0)
    (entry,) = found.inputs
    assert (entry.tensor, entry.producer, entry.device, entry.size_bytes) == ("a:0", "a", 0, 8)
    assert (entry.moved, entry.available_ns) == (True, 15)
    assert found.op.start_ns == 15


def test_rules_are_told_and_what_they_rule_out_is_not_tried() -> None:
    problem = fork(pins=(("b", "d0"),), forbids=(("c", "1"),), colocations=(("a", "b"),))
    found = explained(problem, planned(problem), "b")
    assert found.constraints == ("pinned to d0 by 'b'", "colocated by 'a', 'b'")
    assert found.group == ("a",)
    assert [option.allowed for option in found.alternatives] == [True, False]
    assert found.alternatives[1].step_time_ns is None
    assert explained(problem, planned(problem), "c").constraints == ("forbidden on 1 by 'c'",)


def test_ops_that_share_a_device_move_together() -> None:
    problem = fork(colocations=(("b", "c"),))
    # Both on d1: a to 10, its copy at 15, then 20 + 30.
    found = explained(problem, planned(problem, "input-order"), "b")
    assert found.alternatives[1].step_time_ns == 65


def test_an_op_that_is_not_scheduled_is_said() -> None:
    problem = problem_of(graph_of({"matmul": ("", 8), "relu": ("matmul", 8)}), TWO)
    with pytest.raises(InputError, match="the plan schedules no op or module 'relu_'; did you mean relu"):
        explained(problem, planned(problem), "relu_")


def test_the_table_says_all_that() -> None:
    problem = fork(pins=(("c", "1"),))
    plan = planned(problem)
    text = drawn(op_tables(plan, explained(problem, plan, "b")))
    assert "b on d0: 20 ns from 10 ns" in text
    assert "d0 was free from 10 ns; it waited for a" in text
    assert "as planned" in text
    # After c on d1, whose copy of a it shares: 15 + 30 + 20 or 15 + 20 + 30.
    assert "+44.4%" in text
    held = drawn(op_tables(plan, explained(problem, plan, "c")))
    assert "pinned to 1 by 'c'" in held
    assert "not allowed" in held


def with_modules() -> Problem:
    """b and c belong to modules of "tower", a to none of it."""
    modules = {"a": "towers", "b": "tower.0", "c": "tower.1.body"}
    graph = replace(FORK, ops=tuple(replace(op, module=modules[op.name]) for op in FORK.ops))
    return problem_of(graph, TWO, [10, 20, 30])


def test_a_module_is_explained_with_all_ops_below_it() -> None:
    # The captured order on d0: 60. All of the tower on d1: a to 10, its copy at 15, then 20 + 30.
    problem = with_modules()
    plan = planned(problem, "input-order")
    found = module_explained(problem, plan, "tower")
    assert (found.num_ops, found.time_ns, found.group) == ((2, 0), (50, 0), ())
    assert [op.name for op in found.longest] == ["c", "b"]
    assert [(option.op_time_ns, option.step_time_ns) for option in found.alternatives] == [(50, 60), (50, 65)]
    assert [op.name for op in module_explained(problem, plan, "tower.1").longest] == ["c"]
    text = drawn(op_tables(plan, found))
    assert "tower: 2 ops, 50 ns" in text
    assert "2 ops on d0 (50 ns)" in text
    assert "as planned" in text


def test_a_module_goes_nowhere_that_one_of_its_ops_may_not_go() -> None:
    problem = replace(with_modules(), constraints=Constraints(forbids=(("c", "1"),), colocations=(("a", "b"),)))
    found = module_explained(problem, planned(problem), "tower")
    assert [option.allowed for option in found.alternatives] == [True, False]
    assert found.group == ("a",)  # shares its device with b


def test_a_module_that_is_not_there_is_said_with_the_nearest() -> None:
    problem = with_modules()
    with pytest.raises(InputError, match=r"no op or module 'tower\.1\.bod'; did you mean tower\.1\.body"):
        module_explained(problem, planned(problem), "tower.1.bod")


def updating_graph() -> Graph:
    """forward reads w and makes y; grad reads w and a view of y and makes g; sgd reads g and updates w in place."""
    lines = ("w=8", "turned~ w -> w.t=8:w", "forward w.t -> y=8", "shown~ y -> y.view=8:y", "grad y.view w -> g=8")
    return sketch(*lines, "sgd g w -> w.new=8:w | kind=optimizer", name="tiny")


def test_who_updates_a_parameter_and_who_only_reads_it_is_told_apart() -> None:
    problem = problem_of(updating_graph(), TWO)
    plan = planned(problem)
    reads = "reads 'w', which 'sgd' updates in place, so shares its device"
    assert explained(problem, plan, "sgd").constraints == (
        "updates 'w' in place, so shares a device with what makes or reads it",
    )
    for reader in ("forward", "grad"):
        assert explained(problem, plan, reader).constraints == (reads,)


def test_a_view_is_explained_through_what_it_shows() -> None:
    problem = problem_of(updating_graph(), TWO)
    plan = planned(problem)
    found = explained(problem, plan, "shown")
    assert found == replace(explained(problem, plan, "forward"), view="shown")
    told = "shown is a view of what forward makes; it takes no time and is where this op is:"
    assert told in drawn(op_tables(plan, found))


def test_a_view_of_a_parameter_names_the_ops_that_read_it() -> None:
    problem = problem_of(updating_graph(), TWO)
    held = "'turned' is a view of 'w', which is held wherever it is read"
    with pytest.raises(InputError, match=f"^{held}; ask for an op that reads it: 'forward', 'grad', 'sgd'$"):
        explained(problem, planned(problem), "turned")


@given(problems())
@settings(deadline=None, max_examples=50)
def test_its_own_device_costs_what_the_plan_costs(problem: Problem) -> None:
    plan = planned(problem)
    for op in plan.ops[::2]:
        found = explained(problem, plan, op.name)
        own = found.alternatives[op.device]
        assert own.step_time_ns == plan.step_time_ns
        assert own.peak_bytes == plan.peak_bytes[op.device]
        assert own.bytes_moved == plan.metrics.bytes_moved
        assert {entry.available_ns <= op.start_ns for entry in found.inputs} <= {True}
