"""Inputs that share their device with other ops: set aside while those are placed, then put into the order."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from instances import devices_by_name, graph_of, machine_of, names_in_order, problem_of
from reference import rule_broken_by, simulate, structure_of
from strategies import problems

import placewright._core as _core
from placewright.machine import Link, TransferModel
from placewright.methods.table import METHODS
from placewright.problem import Problem
from placewright.problem.constraints import Constraints
from placewright.search.constructive.contiguous_split import ContiguousSplit
from placewright.search.constructive.inputs_aside import Scope, scopes
from placewright.search.metaheuristics.schedule_annealing import _with_inputs_first
from placewright.search.run.result import Solution
from placewright.search.run.search_run import SearchRun

#: Two layers side by side: v and w are their weights, a and b run forward, c and d make the weights' gradients.
LAYERS = {"v": ("", 4), "w": ("", 4), "a": ("v", 4), "b": ("w", 4), "c": ("a", 4), "d": ("b", 4)}
TIMES = [0, 0, 10, 10, 10, 10]
GRADIENTS = Constraints(colocations=(("v", "c"), ("w", "d")))


def layers(link: Link, transfer_model: TransferModel = "overlapped", **rest: object) -> Problem:
    machine = machine_of(2, link, transfer_model)
    return problem_of(graph_of(LAYERS), machine, TIMES, **{"constraints": GRADIENTS, **rest})


@pytest.mark.parametrize("transfer_model", ["overlapped", "blocking"])
@pytest.mark.parametrize("name", ["list", "etf", "segment-fill", "cluster-list"])
def test_weights_do_not_draw_all_gradients_to_one_device(name: str, transfer_model: TransferModel) -> None:
    # A layer on each device takes 20 ns. Both weights finish at 0 everywhere; were they placed by that alone, c and d
    # would share d0 and a tensor of a or b would have to move for 100 ns, or all four ops run there one by one, 40 ns.
    problem = layers(Link(latency_ns=100), transfer_model)
    result = METHODS[name].solve(problem, SearchRun())
    assert result.metrics.step_time_ns == 20
    device = devices_by_name(problem, result.solution.device_of)
    assert device["v"] == device["a"] == device["c"] != device["w"] == device["b"] == device["d"]


def test_contiguous_runs_count_weights_where_they_are_first_read() -> None:
    # Ten bytes each for v and w, which come first: cut as they are, both fall to d0 and c and d with them.
    ops = {"v": ("", 10), "w": ("", 10), "a": ("v", 1), "c": ("a", 1), "b": ("w", 1), "d": ("b", 1)}
    problem = problem_of(graph_of(ops), machine_of(2), [0, 0, 10, 10, 10, 10], constraints=GRADIENTS)
    assert _core.runs_balancing_memory(problem.core).tolist() == [0, 1, 1, 0, 1, 1]
    candidates = {c.name: devices_by_name(problem, c.device_of) for c in ContiguousSplit().candidates(problem)}
    device = candidates["balanced, inputs with group"]
    assert (device["v"], device["a"], device["c"]) == (0, 0, 0)
    assert (device["w"], device["b"], device["d"]) == (1, 1, 1)


def test_an_input_follows_its_group_and_the_first_reader_when_told_to() -> None:
    # a reads v first; with it, a is in the group of c.
    problem = layers(Link())
    with_reader, with_group = (scope for scope in scopes(problem.core) if scope.aside is not None)
    assert with_reader.core.num_ops == with_group.core.num_ops == 4
    apart = np.array([0, 0, 1, 1], np.int32)  # a b c d
    order = np.array([1, 3, 0, 2], np.int32)  # b d a c
    device_of, ops = with_group.with_inputs(apart, order)
    assert device_of.tolist() == [1, 1, 0, 0, 1, 1]
    # Both weights must move to d0, so they come first, in the order in which they are read.
    assert names_in_order(problem, ops) == "w v b d a c"
    side_by_side = np.array([0, 1, 0, 1], np.int32)
    device_of, ops = with_reader.with_inputs(side_by_side, order)
    assert device_of.tolist() == [0, 1, 0, 1, 0, 1]
    # Their readers are on their devices: each comes right before its first reader.
    assert names_in_order(problem, ops) == "w b d v a c"


@pytest.mark.parametrize(
    ("transfer_model", "expected"),
    [("overlapped", "w v w>0 b v>0 a a>1 b>1 c d"), ("blocking", "w w>0 v v>0 b a a>1 b>1 c d")],
)
def test_an_input_leaves_right_before_its_reader_or_where_transfers_block_at_once(
    transfer_model: TransferModel, expected: str
) -> None:
    problem = layers(Link(latency_ns=1), transfer_model)
    *_, with_group = scopes(problem.core)
    # Of a b c d and their tensors: b a, both to d1, c d.
    order = np.array([[1, -1], [0, -1], [0, 1], [1, 1], [2, -1], [3, -1]], np.int32)
    _, whole = with_group.with_inputs(np.array([0, 0, 1, 1], np.int32), order)
    names = [problem.graph.ops[i].name + (f">{to}" if to >= 0 else "") for i, to in whole.tolist()]
    assert " ".join(names) == expected


def test_what_works_and_inputs_that_stand_alone_are_not_set_aside() -> None:
    # v shares its device with no op, w with another input only, and b takes 1 ns.
    graph = graph_of({"v": ("", 4), "w": ("", 4), "x": ("", 4), "b": ("", 4), "a": ("v w x b", 4)})
    constraints = Constraints(colocations=(("w", "x"), ("b", "a")))
    problem = problem_of(graph, machine_of(2), [0, 0, 0, 1, 10], constraints=constraints)
    assert [scope.aside for scope in scopes(problem.core)] == [None]


def test_the_memory_of_inputs_set_aside_counts_where_they_are_read_and_held() -> None:
    # 4 bytes of v besides a's 8 on d0, which holds 11: a must go to d1, though d0 is faster.
    ops = {"v": ("", 4), "a": ("v", 8), "c": ("", 1)}
    graph = graph_of(ops)
    problem = Problem(
        graph=graph,
        machine=machine_of(2),
        time_ns=np.array([[0, 0], [1, 5], [1, 5]]),
        memory_limits_bytes=(11, 20),
        constraints=Constraints(colocations=(("v", "c"),)),
    )
    for scope in scopes(problem.core):
        if scope.aside is not None:
            device_of, _ = _core.list_schedule(scope.core, np.arange(2, dtype=np.int32), False)
            assert device_of[0] == 1


def test_dispatching_starts_inputs_that_move_before_anything_works() -> None:
    # On d0, a of 10 ns has the longer way to go (a, then b: 30 ns) than v, whose reader c on d1 takes 1 ns. Behind a, v
    # would leave at 10; before it, c runs at 5.
    graph = graph_of({"v": ("", 4), "a": ("", 4), "b": ("a", 4), "c": ("v", 4)})
    problem = problem_of(graph, machine_of(2, Link(latency_ns=5)), [0, 10, 20, 1])
    order = _core.dispatch_order(problem.core, np.array([0, 0, 0, 1], np.int32))
    assert names_in_order(problem, order) == "v a c b"


def test_an_annealed_plan_does_not_hold_back_an_input_that_moves() -> None:
    # v behind a, in a plan where c may as well wait: it ends at 30 either way, but with memory aside the input leaves
    # at 0 and c is done at 6.
    graph = graph_of({"v": ("", 4), "a": ("", 4), "c": ("v", 4), "d": ("c", 4)})
    problem = problem_of(graph, machine_of(2, Link(latency_ns=5)), [0, 10, 1, 20])
    device_of = np.array([0, 0, 1, 1], np.int32)
    late = Solution(device_of=device_of, order=np.array([[1, -1], [0, -1], [0, 1], [2, -1], [3, -1]], np.int32))
    assert problem.core.simulate(late.device_of, late.order).step_time_ns == 36
    early = _with_inputs_first(problem, late)
    assert problem.core.simulate(early.device_of, early.order).step_time_ns == 26


@st.composite
def problems_with_inputs(draw: st.DrawFn) -> Problem:
    """Problems in which every third op on average takes no time, and groups are drawn among all ops."""
    problem = draw(problems(max_ops=10))
    times = problem.time_ns.copy()
    times[draw(st.lists(st.booleans(), min_size=len(times), max_size=len(times)))] = 0
    names = [op.name for op in problem.graph.ops if op.kind != "view"]
    pairs = draw(st.lists(st.tuples(st.sampled_from(names), st.sampled_from(names)), max_size=4))
    return Problem(
        graph=problem.graph,
        machine=problem.machine,
        time_ns=times,
        control=problem.control,
        constraints=Constraints(colocations=tuple(pairs)),
    )


def set_aside(problem: Problem) -> list[int]:
    """Return scheduled ops without time that wait only for such ops and share a device with an op that is not one."""
    structure = structure_of(problem)
    times = problem.time_ns[problem.lowered.graph_op]
    group = problem.groups[0].tolist()

    def waits_for(op: int) -> set[int]:
        return {structure.producer[t] for t in structure.inputs[op]} | set(structure.predecessors[op])

    inputs: set[int] = set()
    for op in range(structure.num_ops):
        if not times[op].any() and waits_for(op) <= inputs:
            inputs.add(op)
    tied = {op for op in inputs if {other for other in range(len(group)) if group[other] == group[op]} - inputs}
    aside: list[int] = []
    for op in sorted(tied):
        if waits_for(op) <= set(aside):
            aside.append(op)
    return aside


@settings(max_examples=200)
@given(problem=problems_with_inputs(), data=st.data())
def test_what_is_decided_about_the_rest_is_valid_with_the_inputs(problem: Problem, data: st.DataObject) -> None:
    aside = set_aside(problem)
    rest = [op for op in range(problem.core.num_ops) if op not in aside]
    found = [scope for scope in scopes(problem.core) if scope.aside is not None]
    assert len(found) == (2 if aside else 0)
    for scope in found:
        assert scope.core.num_ops == len(rest)
        device_of, ops = _core.list_schedule(scope.core, _core.bottom_level_order(scope.core), False)
        whole_device_of, whole_ops = scope.with_inputs(device_of, ops)
        assert whole_device_of[rest].tolist() == device_of.tolist()
        assert [op for op in whole_ops.tolist() if op not in aside] == [rest[op] for op in ops.tolist()]
        order, _, _ = _core.best_transfers(problem.core, whole_device_of, whole_ops, 3)
        assert rule_broken_by(problem, whole_device_of.tolist(), [tuple(step) for step in order.tolist()]) is None
        assert_remote_inputs_stand_first(problem, scope, whole_device_of.tolist(), whole_ops.tolist(), aside)
        device_of, order = scope.with_inputs(*_core.segment_fill(scope.core, data.draw(st.booleans())))
        assert rule_broken_by(problem, device_of.tolist(), [tuple(step) for step in order.tolist()]) is None


def assert_remote_inputs_stand_first(
    problem: Problem, scope: Scope, device_of: list[int], ops: list[int], aside: list[int]
) -> None:
    """Check that inputs for another device precede all ops that are not set aside, and others their first reader
    directly."""
    structure = structure_of(problem)
    place = {op: position for position, op in enumerate(ops)}
    for op in aside:
        waiting = [
            other
            for other in range(structure.num_ops)
            if op in structure.predecessors[other] or {structure.producer[t] for t in structure.inputs[other]} >= {op}
        ]
        between = [o for o in ops[: place[op]] if o not in aside]
        if any(device_of[other] != device_of[op] for other in waiting):
            assert between == []
        elif waiting and not set(waiting) & set(aside):
            first = min(place[other] for other in waiting)
            assert between == [] or all(o in aside for o in ops[place[op] : first])


@settings(max_examples=150)
@given(problem=problems_with_inputs(), data=st.data())
def test_inputs_at_the_beginning_leave_a_valid_order(problem: Problem, data: st.DataObject) -> None:
    group, allowed = (array.tolist() for array in problem.groups)
    open_to = [[d for d in range(problem.machine.num_devices) if mask >> d & 1] for mask in allowed]
    chosen = [data.draw(st.sampled_from(devices)) for devices in open_to]
    device_of = np.array([chosen[first] for first in group], np.int32)
    ops = np.arange(len(group), dtype=np.int32)
    order, _, _ = _core.best_transfers(problem.core, device_of, ops, 1)
    moved = _core.with_remote_inputs_first(problem.core, device_of, order)
    steps = [tuple(step) for step in moved.tolist()]
    assert rule_broken_by(problem, device_of.tolist(), steps) is None
    solution = Solution(device_of=device_of, order=order)
    kept = _with_inputs_first(problem, solution)
    before, after = (simulate(problem, device_of.tolist(), [tuple(s) for s in o.tolist()]) for o in (order, kept.order))
    assert (after.bytes_over_limit, after.step_time_ns) <= (before.bytes_over_limit, before.step_time_ns)
