"""The checker agrees with the core on right plans and names what is wrong in others."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Callable, ItemsView
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from instances import plan_of, sketch
from reference import simulate
from strategies import problems, solved

from placewright.costs.estimate import estimate_costs
from placewright.graph import Graph
from placewright.importers import load_graph
from placewright.machine import Device, Link, Machine, TransferModel
from placewright.machines import load_machine
from placewright.plans.record import BaselineOutcome, MemoryCurve, Plan
from placewright.problem import Problem
from placewright.problem.constraints import Constraints
from placewright.problem.objective import ControlMode, Status
from placewright.search.run.result import Solution
from placewright.support.errors import InputError
from placewright.terminal.check_table import check_table
from placewright.verification.checker import check_plan
from placewright.verification.evidence import unchecked
from placewright.verification.order import require_order
from placewright.verification.replay import Step, demands, held_memory, in_place_memory, memory_curve, step_times


@given(solved())
def test_the_plan_of_any_solution_is_right(case: tuple[Problem, Solution]) -> None:
    problem, solution = case
    assert check_plan(plan_of(problem, solution), problem.graph, problem.time_ns) == []


@given(solved())
def test_the_replay_of_the_graph_equals_the_simulation_of_the_lowered_arrays(case: tuple[Problem, Solution]) -> None:
    """Two readings of docs/semantics.md that share nothing: one from the graph, one from what lowering made of it."""
    problem, solution = case
    graph, lowered, device_of = problem.graph, problem.lowered, solution.device_of.tolist()
    order = [(index, destination) for index, destination in solution.order.tolist()]
    producer = np.repeat(np.arange(len(lowered.graph_op)), np.diff(lowered.output_begin))
    steps = []
    for index, destination in order:
        maker = int(producer[index]) if destination >= 0 else index
        value = int(lowered.graph_tensor[index]) if destination >= 0 else None
        op, device = int(lowered.graph_op[maker]), device_of[maker]
        value = -1 - op if value == -1 else value
        steps.append(Step(op=op, value=value, source=device, destination=destination if destination >= 0 else device))
    wanted = demands(graph, problem.control)
    times = step_times(graph, problem.machine, wanted, steps, problem.time_ns, signals=problem.control == "signal")
    held = held_memory(graph, wanted, steps, times)
    expected = simulate(problem, device_of, order)
    assert [start for start, _ in times] == expected.start_ns
    assert [finish for _, finish in times] == expected.finish_ns
    curves = [memory_curve(held, device) for device in range(problem.machine.num_devices)]
    assert [max(in_use for _, in_use in curve) for curve in curves] == expected.peak_bytes


@pytest.mark.parametrize("model", ["blocking", "overlapped"])
@pytest.mark.parametrize("control", ["order", "signal", "transfer"])
def test_the_plan_of_a_real_training_step_placed_at_random_is_right(model: TransferModel, control: ControlMode) -> None:
    graph = load_graph("example:inception-v3-train")
    machine = replace(load_machine("4xa100-80g/nvlink"), transfer_model=model)
    time_ns = estimate_costs(graph, machine).time_ns
    problem = Problem(graph=graph, machine=machine, time_ns=time_ns, control=control)
    keys = np.random.default_rng(0).integers(2**32, size=problem.core.num_keys, dtype=np.uint32)
    device_of, order = problem.core.decode(keys)
    plan = plan_of(problem, Solution(device_of=device_of, order=order))
    assert plan.metrics.num_transfers > 500
    assert check_plan(plan, graph, time_ns) == []


def right_plan(
    control: ControlMode = "signal", limits: tuple[int | None, int | None] = (None, None)
) -> tuple[Plan, Graph, np.ndarray]:
    """Op a on d0 makes x; b on d0 and c on d1 read it; c also holds the parameter w and must come after b."""
    graph = sketch("a -> x=4", "w=3", "b x | workspace_bytes=5", "c x w -> y=2! < b | module=tail", name="three")
    devices = (Device(name="d0", kind="any"), Device(name="d1", kind="any"))
    link = Link(bandwidth_bytes_per_s=1e9, latency_ns=2)
    machine = Machine(name="two", devices=devices, links=((link,) * 2,) * 2)
    time_ns = np.full((3, 2), 10, np.int64)
    problem = Problem(graph=graph, machine=machine, time_ns=time_ns, control=control, memory_limits_bytes=limits)
    x_to_d1, control_to_d1 = (0, 1), (1, 1)
    order = [(0, -1), x_to_d1, (1, -1), *([control_to_d1] if control == "transfer" else []), (2, -1)]
    return (
        plan_of(problem, Solution(device_of=np.array([0, 0, 1], np.int32), order=np.array(order, np.int32))),
        graph,
        time_ns,
    )


def test_the_small_plan_is_right() -> None:
    plan, graph, time_ns = right_plan()
    assert check_plan(plan, graph, time_ns) == []
    # a 0-10, x moves 10-16 (2 + 4 bytes at 1 ns), b 10-20, c from max(16, 20 + 2).
    assert plan.metrics.step_time_ns == 32
    # d0: x and the workspace of b; d1: w, x and y.
    assert plan.metrics.peak_bytes == (4 + 5, 3 + 4 + 2)


def _with_op(plan: Plan, which: str, /, **changes: object) -> Plan:
    return replace(plan, ops=tuple(replace(op, **changes) if op.name == which else op for op in plan.ops))  # type: ignore[arg-type]


def _with_transfer(plan: Plan, **changes: object) -> Plan:
    return replace(plan, transfers=(replace(plan.transfers[0], **changes),))  # type: ignore[arg-type]


def _with_metrics(plan: Plan, **changes: object) -> Plan:
    return replace(plan, metrics=replace(plan.metrics, **changes))  # type: ignore[arg-type]


def _with_buffer(plan: Plan, which: str, /, **changes: object) -> Plan:
    buffers = (replace(b, **changes) if (b.kind, b.name) == ("tensor", which) else b for b in plan.buffers)  # type: ignore[arg-type]
    return replace(plan, buffers=tuple(buffers))


def _with_options(plan: Plan, **options: object) -> Plan:
    return replace(plan, configuration={**plan.configuration, **options})


def _with_longer_curve(plan: Plan) -> Plan:
    curve = plan.memory_curves[1]
    longer = replace(curve, time_ns=(*curve.time_ns, 99), bytes_in_use=(*curve.bytes_in_use, 99))
    return replace(plan, memory_curves=(plan.memory_curves[0], longer))


def _with_baseline(plan: Plan, **changes: object) -> Plan:
    metrics = replace(plan.metrics, **changes)  # type: ignore[arg-type]
    return replace(plan, baselines=(BaselineOutcome(name="better", metrics=metrics, seconds=0.0),))


WRONG: dict[str, tuple[Callable[[Plan], Plan], str]] = {
    "another graph": (lambda p: replace(p, graph_fingerprint="0" * 64), "fingerprint"),
    "op count": (lambda p: replace(p, num_graph_ops=4), "counts 4 graph ops; there are 3"),
    "limits": (lambda p: replace(p, memory_limits_bytes=(None,)), "1 memory limits for 2 devices"),
    "missing op": (lambda p: replace(p, ops=p.ops[:-1]), "op 'c' is scheduled 0 times"),
    "op twice": (lambda p: replace(p, ops=(*p.ops, p.ops[0])), "op 'a' is scheduled 2 times"),
    "unknown op": (lambda p: _with_op(p, "b", name="z"), "op 'z' is in the plan but not an op"),
    "unknown device": (lambda p: _with_op(p, "b", device=2), "op 'b' is on device 2"),
    "moved op": (lambda p: _with_op(p, "b", device=1), "op 'b'"),
    "needless transfer": (lambda p: _with_op(p, "c", device=0), "'x' to device 1 is not needed"),
    "missing transfer": (lambda p: replace(_with_op(p, "c", device=1), transfers=()), "positions"),
    "wrong source": (lambda p: _with_transfer(p, source=1), "('a', 1, 4), expected ('a', 0, 4)"),
    "wrong size": (lambda p: _with_transfer(p, size_bytes=5), "('a', 0, 5), expected ('a', 0, 4)"),
    "same position": (lambda p: _with_op(p, "b", position=1), "positions"),
    "before its input": (
        lambda p: _with_transfer(_with_op(p, "a", position=1), position=0),
        "the transfer of 'x' to device 1 stands before op 'a'",
    ),
    "before a control": (
        lambda p: _with_op(_with_op(p, "b", position=3), "c", position=2),
        "op 'c' stands before op 'b'",
    ),
    "late start": (lambda p: _with_op(p, "b", start_ns=11, finish_ns=21), "op 'b' starts and finishes at (11, 21) ns"),
    "early transfer": (lambda p: _with_transfer(p, start_ns=9), "'x' to device 1 starts and finishes at (9, 16)"),
    "wrong reason": (lambda p: _with_op(p, "c", waits_for=0), "op 'c' starts at 22 ns, which waiting for position 0"),
    "output bytes": (lambda p: _with_op(p, "a", output_bytes=0), "op 'a' has kind"),
    "buffer size": (lambda p: replace(p, buffers=p.buffers[1:]), "expected [("),
    "buffers unsorted": (lambda p: replace(p, buffers=p.buffers[::-1]), "not sorted by device"),
    "curve": (_with_longer_curve, "the memory curve of device 1"),
    "no curves": (lambda p: replace(p, memory_curves=()), "0 memory curves for 2 devices"),
    "step time": (lambda p: _with_metrics(p, step_time_ns=31), "step_time_ns is 31, expected 32"),
    "peaks": (lambda p: _with_metrics(p, peak_bytes=(9, 8)), "peak_bytes is (9, 8), expected (9, 9)"),
    "buffer's op": (
        lambda p: _with_buffer(p, "y", op="a"),
        "the tensor 'y' on device 1 has op, bytes, begin and end [('a'",
    ),
    "unknown tensor": (lambda p: _with_transfer(p, tensor="z"), "'z' to device 1 moves no tensor of the graph"),
    "bound": (lambda p: replace(p, lower_bound=33), "the lower bound 33 is above"),
    # Without transfers and signals a, b and c take 10 each, one after the other: 30; the work spread evenly takes 15.
    "lower bound": (
        lambda p: replace(p, lower_bound=29),
        "the lower bound is 29 (critical path), expected 30 (critical",
    ),
    "bound met": (
        lambda p: replace(p, lower_bound=32, status="optimal"),
        "the lower bound is 32 (critical path), expected 30 (critical path)",
    ),
    "bound's reason": (
        lambda p: replace(p, bound_reason="work divided over all devices"),
        "the lower bound is 30 (work divided over all devices), expected 30 (critical path)",
    ),
    "bound of the solver that is none": (
        lambda p: replace(p, lower_bound=29, bound_reason="proven by the solver"),
        "the lower bound is 29 (proven by the solver), expected 30 (critical path)",
    ),
    "bound of the solver that the plan refutes": (
        lambda p: replace(p, lower_bound=33, bound_reason="proven by the solver"),
        "the lower bound 33 is above the plan's own step-time of 32",
    ),
    "better baseline": (lambda p: _with_baseline(p, step_time_ns=31), "baseline 'better' is better"),
    "impossible baseline": (lambda p: _with_baseline(p, step_time_ns=0), "baseline 'better' is below the lower bound"),
    "memory of the input order": (
        lambda p: replace(
            p,
            baselines=(BaselineOutcome(name="input-order", metrics=p.metrics, seconds=0.0),),
            input_order_memory=MemoryCurve(time_ns=(0,), bytes_in_use=(7,)),
        ),
        "the memory of the input order peaks at 7 bytes, that baseline at ",
    ),
    "memory floor": (
        lambda p: replace(p, memory_floor_bytes=p.memory_floor_bytes + 1),
        "the least memory of any plan is",
    ),
    "op of the memory floor": (lambda p: replace(p, memory_floor_op="c"), "the least memory of any plan is"),
    "status": (lambda p: replace(p, status="infeasible"), "the status is infeasible with 0 bytes"),
    "optimal above the bound": (
        lambda p: replace(p, status="optimal"),
        "the status is optimal with 0 bytes over the limits and a step-time of 32 against a bound of 30, expected feas",
    ),
    "stopped as optimal": (lambda p: replace(p, stopped_because="optimal"), "the search stopped because the plan is"),
    "stopped as infeasible": (
        lambda p: replace(p, stopped_because="infeasible"),
        "the search stopped because nothing fits, which this plan refutes",
    ),
    "pinned": (lambda p: _with_options(p, pins={"[bc]": "d0"}), "op 'c' is on device 1, but the configuration pins"),
    "pinned module": (
        lambda p: _with_options(p, pins={"tail": 0}),
        "op 'c' is on device 1, but the configuration pins",
    ),
    "forbidden": (
        lambda p: _with_options(p, forbids={"?": "1"}),
        "op 'c' is on device 1, but the configuration forbids '?' to '1'",
    ),
    "colocated": (
        lambda p: _with_options(p, colocate=[["a"], ["b", "tail"]]),
        "the configuration colocates b, tail, but the plan has op 'b' on device 0, op 'c' on device 1",
    ),
    "pin of nothing": (lambda p: _with_options(p, pins={"z*": "d0"}), "pins name 'z*', which matches no op"),
    "colocation of nothing": (lambda p: _with_options(p, colocate=[["z"]]), "colocate names 'z', which matches no op"),
    "pin to no device": (lambda p: _with_options(p, pins={"a": "d2"}), "pins name device 'd2', which the machine"),
    "pins of no kind": (lambda p: _with_options(p, pins=["a"]), "pins are no table"),
    "colocations of no kind": (lambda p: _with_options(p, colocate="ab"), "colocate is no list of lists"),
    "memory limit": (
        lambda p: _with_options(p, memory_limit="1KiB"),
        "the memory limit of device 'd0' is None, by the configuration 1024",
    ),
    "no memory limit": (
        lambda p: replace(_with_options(p, memory_limit=None), memory_limits_bytes=(None, 99)),
        "the memory limit of device 'd1' is 99, by the configuration None",
    ),
    "memory limit of no size": (lambda p: _with_options(p, memory_limit="much"), "the configuration's memory_limit: "),
    "memory limit of no kind": (lambda p: _with_options(p, memory_limit=[1]), "memory_limit [1] is no size"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_named(name: str) -> None:
    change, sentence = WRONG[name]
    plan, graph, time_ns = right_plan()
    problems = check_plan(change(plan), graph, time_ns)
    assert any(sentence in problem for problem in problems), problems


def test_whoever_needs_the_graph_of_a_plan_refuses_one_that_cannot_run_on_it() -> None:
    plan, graph, _ = right_plan()
    require_order(plan, graph)
    for change, sentence in (
        (replace(plan, ops=plan.ops[:-1]), "op 'c' is scheduled 0 times, not once"),
        (_with_transfer(plan, tensor="q"), "the transfer of 'q' to device 1 moves no tensor of the graph"),
        (_with_options(plan, pins={"a": "d1"}), "op 'a' is on device 0, but the configuration pins 'a' to 'd1'"),
        (replace(plan, transfers=()), "the positions of ops and transfers are not 0, 1, 2 and so on"),
    ):
        with pytest.raises(InputError, match=f"^'p.json' does not fit its graph: {sentence}"):
            require_order(change, graph, name="'p.json'")


@pytest.mark.parametrize("name", ["control of a", "controls of b", "b", ""])
def test_a_control_tensor_has_one_name(name: str) -> None:
    plan, graph, time_ns = right_plan("transfer")
    assert [transfer.tensor for transfer in plan.transfers] == ["x", "control of b"]
    assert check_plan(plan, graph, time_ns) == []
    renamed = (plan.transfers[0], replace(plan.transfers[1], tensor=name))
    assert check_plan(replace(plan, transfers=renamed), graph, time_ns) == [
        f"the transfer of '{name}' to device 1 moves no tensor of the graph and not the control tensor of 'b'"
    ]


# Both devices hold 9 bytes at most, the largest op (c: w 3, x 4, y 2, and b: x 4, workspace 5) needs 9 anywhere.
@pytest.mark.parametrize(("limit", "status"), [(9, "feasible"), (8, "infeasible")])
def test_the_status_says_whether_the_limits_are_kept(limit: int, status: Status) -> None:
    plan, graph, time_ns = right_plan(limits=(limit, limit))
    assert plan.status == status
    assert check_plan(plan, graph, time_ns) == []
    wrong: set[Status] = {"optimal", "feasible", "infeasible"}
    for other in wrong - {status}:
        (problem,) = check_plan(replace(plan, status=other), graph, time_ns)
        assert problem.startswith(f"the status is {other} with ")
        assert problem.endswith(f"expected {status}")


def test_a_baseline_over_the_limits_may_be_below_what_a_solver_proved_within_them() -> None:
    plan, graph, time_ns = right_plan()
    value = plan.metrics.step_time_ns
    proven = replace(plan, lower_bound=value, bound_reason="proven by the solver", status="optimal")
    below = replace(plan.metrics, step_time_ns=value - 1)
    for over, complaints in ((0, 2), (1, 0)):  # within the limits it would also be better than the plan
        baseline = BaselineOutcome(name="x", metrics=replace(below, bytes_over_limit=over), seconds=0.1)
        assert len(check_plan(replace(proven, baselines=(baseline,)), graph, time_ns)) == complaints


def test_a_plan_at_its_bound_is_optimal_and_nothing_else() -> None:
    plan, graph, time_ns = right_plan()
    problem = Problem(graph=graph, machine=plan.machine, time_ns=time_ns)
    best = plan_of(
        problem, Solution(device_of=np.zeros(3, np.int32), order=np.array([(0, -1), (1, -1), (2, -1)], np.int32))
    )
    # On one device nothing moves: 3 times 10, which the chain of all three ops needs anyway.
    assert (best.metrics.step_time_ns, best.lower_bound, best.status) == (30, 30, "optimal")
    assert check_plan(replace(best, stopped_because="optimal"), graph, time_ns) == []
    (problem_found,) = check_plan(replace(best, status="feasible"), graph, time_ns)
    assert problem_found.endswith("expected optimal")


def test_the_bound_rests_on_the_constraints_that_the_plan_records() -> None:
    # The chain of three ops takes 10 each on d0; tail, forbidden there, 20 on d1: 40 in all, without the rule 30.
    plan, graph, time_ns = right_plan()
    slow = time_ns * np.array([[1, 2]])
    rule = Constraints(forbids=(("tail", "d0"),))
    problem = Problem(graph=graph, machine=plan.machine, time_ns=slow, constraints=rule)
    order = np.array([(0, -1), (0, 1), (1, -1), (2, -1)], np.int32)
    ruled = plan_of(problem, Solution(device_of=np.array([0, 0, 1], np.int32), order=order))
    assert (ruled.lower_bound, ruled.configuration["forbids"]) == (40, {"tail": "d0"})
    assert check_plan(ruled, graph, slow) == []
    unrecorded = replace(ruled, configuration={})
    assert any("expected 30 (critical path)" in sentence for sentence in check_plan(unrecorded, graph, slow))


# The plan holds 9 bytes on both devices, and each of b and c needs 9 where it runs: 8 for either proves that nothing
# fits. With 9 on d0 there is room for both ops and for w and y, 5 bytes, so the bounds prove nothing.
@pytest.mark.parametrize(
    ("limits", "says"), [((8, 8), []), ((9, 8), ["is not proven"]), ((9, 9), ["this plan refutes"])]
)
def test_that_nothing_fits_must_be_proven(limits: tuple[int, int], says: list[str]) -> None:
    plan, graph, time_ns = right_plan(limits=limits)
    problems_found = check_plan(replace(plan, stopped_because="infeasible"), graph, time_ns)
    assert problems_found == [f"the search stopped because nothing fits, which {what}" for what in says]


def test_demands_that_the_placement_meets_are_no_problem() -> None:
    plan, graph, time_ns = right_plan(limits=(1024, 1024))
    met = _with_options(
        plan, memory_limit="1KiB", pins={"tail": "d1", "[ab]": 0}, forbids={"c": "0"}, colocate=[["a", "b"], ["tail"]]
    )
    # With a pin on d1 one device alone does something else.
    assert check_plan(replace(met, one_device=None), graph, time_ns) == []


def test_other_op_times_make_the_plan_wrong() -> None:
    plan, graph, time_ns = right_plan()
    slower = time_ns.copy()
    slower[0, 0] += 1
    assert "op 'a' starts and finishes at (0, 10) ns, expected (0, 11)" in check_plan(plan, graph, slower)


def test_op_times_of_another_shape_are_an_input_error() -> None:
    plan, graph, time_ns = right_plan()
    with pytest.raises(InputError, match=r"shape \(2, 2\)"):
        check_plan(plan, graph, time_ns[1:])


@given(solved(), st.data())
def test_a_shifted_position_time_or_device_never_passes(case: tuple[Problem, Solution], data: st.DataObject) -> None:
    problem, solution = case
    plan = plan_of(problem, solution)
    op = data.draw(st.sampled_from(plan.ops))
    change = data.draw(
        st.sampled_from([{"start_ns": op.start_ns + 1}, {"finish_ns": op.finish_ns + 1}, {"position": op.position + 1}])
    )
    assert check_plan(_with_op(plan, op.name, **change), problem.graph, problem.time_ns) != []


# One device needs 30 for the critical path and the plan takes 32: a solver may have proved anything in between.
@pytest.mark.parametrize(("proven", "status"), [(31, "feasible"), (32, "optimal")])
def test_a_better_bound_that_the_solver_proved_stands_with_its_own_reason(proven: int, status: Status) -> None:
    plan, graph, time_ns = right_plan()
    claimed = replace(plan, lower_bound=proven, bound_reason="proven by the solver", status=status)
    assert check_plan(claimed, graph, time_ns) == []
    assert unchecked(plan) == []
    assert unchecked(claimed) == [f"the lower bound of {proven} ns, which a search proved"]
    printed = [str(part) for part in check_table(claimed, (), unchecked(claimed))]
    assert printed[1] == f"not checked: the lower bound of {proven} ns, which a search proved"


@given(problems())
def test_ops_share_a_device_with_all_that_hold_the_memory_they_overwrite(problem: Problem) -> None:
    """Against each op that writes in place and, one by one, every op there is."""
    graph = problem.graph
    wanted = demands(graph, problem.control)
    found = {(op, other) for writers, sharers in in_place_memory(graph, wanted) for op in writers for other in sharers}
    expected = {
        (op, other)
        for op in wanted.reads
        for tensor in graph.ops[op].outputs
        for other in wanted.reads
        if graph.tensors[tensor].alias_of is not None
        if graph.base_of[tensor] in wanted.residents[other] or graph.producer_of[graph.base_of[tensor]] == other
    }
    assert found == expected


class Counted(UserDict[int, set[int]]):
    """A dictionary that knows how often it was walked."""

    walks = 0

    def items(self) -> ItemsView[int, set[int]]:
        self.walks += 1
        return super().items()


def test_the_updates_of_many_parameters_are_found_in_one_walk_over_the_ops() -> None:
    """A walk for each update takes minutes where there are tens of thousands."""
    count = 50
    lines = [line for i in range(count) for line in (f"w{i}=8", f"s{i} w{i} -> u{i}=8:w{i}")]
    graph = sketch(*lines, kind="optimizer")
    wanted = demands(graph, "signal")
    residents = Counted(wanted.residents)
    pairs = list(in_place_memory(graph, replace(wanted, residents=residents)))
    assert pairs == [([op], [op]) for op in range(count)]
    assert residents.walks == 1
