"""The worked example of docs/semantics.md: its tables, worked out by hand, are what every implementation must give."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from instances import plan_of
from reference import launched, simulate

from placewright.graph import Graph, Op, Tensor
from placewright.machine import Device, LaunchMode, Link, Machine, TransferModel
from placewright.machines.host import HostMemory
from placewright.plans.record import ScheduledOp, Transfer
from placewright.problem import Problem
from placewright.problem.objective import ControlMode
from placewright.rematerialization.reruns import Move
from placewright.rematerialization.solve import in_order, with_reruns
from placewright.search.run.result import Solution
from placewright.verification.checker import check_plan
from placewright.verification.replay import BEGIN, Step, demands, held_memory, memory_curve, step_times

SEMANTICS = Path(__file__).parents[1] / "docs/semantics.md"
MODELS: tuple[TransferModel, ...] = ("overlapped", "blocking")
DEVICE_OF = [0, 0, 1, 0, 1]
TENSORS = ("x", "y", "z", "o", "w")


def tables(header: str) -> list[list[dict[str, str]]]:
    """The rows of every table of the page whose header starts like this, by column."""
    found = []
    lines = SEMANTICS.read_text().splitlines()
    for number, line in enumerate(lines):
        if not line.startswith(header):
            continue
        names = [name.strip() for name in line.strip("|").split("|")]
        rows = lines[number + 2 : lines.index("", number)]
        cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
        found.append([dict(zip(names, row, strict=True)) for row in cells])
    return found


def example(
    model: TransferModel, control: ControlMode = "signal", launch: LaunchMode = "host-thread", overhead_ns: int = 0
) -> Problem:
    """The table of ops as a problem."""
    (rows,) = tables("| op | time | reads |")
    sizes = {"w": 5} | {row["makes"].split(",")[0]: int(row["makes"].split()[1]) for row in rows if row["makes"]}
    tensors = tuple(
        Tensor(
            name=name, size_bytes=sizes[name], role="parameter" if name == "w" else "activation", is_output=name == "o"
        )
        for name in TENSORS
    )
    reads = {row["op"]: row["reads"].replace(",", " ").split() for row in rows}
    reads["c"].append("w")
    ops = tuple(
        Op(
            name=row["op"],
            kind="other",
            inputs=tuple(TENSORS.index(name) for name in reads[row["op"]]),
            outputs=(TENSORS.index(row["makes"][0]),) if row["makes"] else (),
            controls=(1,) if row["op"] == "e" else (),
            workspace_bytes=2 if row["op"] == "b" else 0,
        )
        for row in rows
    )
    devices = tuple(Device(name=name, kind="any", launch_overhead_ns=overhead_ns) for name in "01")
    link = Link(bandwidth_bytes_per_s=1e9, latency_ns=1)
    machine = Machine(name="two", devices=devices, links=((link,) * 2,) * 2, transfer_model=model, launch=launch)
    time_ns = np.array([[int(row["time"])] * 2 for row in rows], np.int64)
    graph = Graph(name="worked example", ops=ops, tensors=tensors)
    return Problem(graph=graph, machine=machine, time_ns=time_ns, control=control)


def order_of(problem: Problem) -> list[tuple[int, int]]:
    """The order of the page; in transfer mode with the control tensor of b moved right before d."""
    tensor_of = {int(t): index for index, t in enumerate(problem.lowered.graph_tensor)}
    x_to_1, z_to_0 = (tensor_of[TENSORS.index("x")], 1), (tensor_of[TENSORS.index("z")], 0)
    signal = [(tensor_of[-1], 1)] if problem.control == "transfer" else []
    return [(0, -1), x_to_1, (1, -1), (2, -1), z_to_0, *signal, (3, -1), (4, -1)]


def span(text: str) -> tuple[int, int]:
    start, finish = text.split("-")
    return int(start), int(finish)


@pytest.mark.parametrize("model", MODELS)
def test_the_times_of_the_page_are_those_of_the_core_and_the_oracle(model: TransferModel) -> None:
    (rows,) = tables("| position | step |")
    problem = example(model)
    order = order_of(problem)
    expected = [span(row[model]) for row in rows]
    oracle = simulate(problem, DEVICE_OF, order)
    core = problem.core.simulate(np.array(DEVICE_OF, np.int32), np.array(order, np.int32))
    assert list(zip(oracle.start_ns, oracle.finish_ns, strict=True)) == expected
    assert list(zip(core.start_ns.tolist(), core.finish_ns.tolist(), strict=True)) == expected


@pytest.mark.parametrize("model", MODELS)
def test_the_memory_of_the_page_is_that_of_the_core_the_checker_and_the_oracle(model: TransferModel) -> None:
    rows = tables("| time | event |")[MODELS.index(model)]
    problem = example(model)
    order = order_of(problem)
    steps = [
        Step(op=0, value=None, source=0, destination=0),
        Step(op=0, value=TENSORS.index("x"), source=0, destination=1),
        Step(op=1, value=None, source=0, destination=0),
        Step(op=2, value=None, source=1, destination=1),
        Step(op=2, value=TENSORS.index("z"), source=1, destination=0),
        Step(op=3, value=None, source=0, destination=0),
        Step(op=4, value=None, source=1, destination=1),
    ]
    wanted = demands(problem.graph, "signal")
    times = step_times(problem.graph, problem.machine, wanted, steps, problem.time_ns, signals=True)
    held = held_memory(problem.graph, wanted, steps, times)
    curves = [dict(memory_curve(held, device)) for device in range(2)]
    names = [row["step"] for row in tables("| position | step |")[0]]
    found, in_use = [], [0, 0]
    for event in sorted(curves[0].keys() | curves[1].keys()):
        in_use = [curve.get(event, before) for curve, before in zip(curves, in_use, strict=True)]
        what = "residents" if event == BEGIN else f"{names[event[1]]} {'finishes' if event[2] else 'starts'}"
        found.append((event[0], what, *in_use))
    assert found == [(int(row["time"]), row["event"], int(row["device 0"]), int(row["device 1"])) for row in rows]
    peaks = [max(int(row[f"device {device}"]) for row in rows) for device in range(2)]
    assert peaks == ([11, 11] if model == "overlapped" else [9, 11])
    assert simulate(problem, DEVICE_OF, order).peak_bytes == peaks
    core = problem.core.simulate(np.array(DEVICE_OF, np.int32), np.array(order, np.int32))
    assert core.peak_bytes.tolist() == peaks


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("control", ["order", "signal", "transfer"])
def test_the_readings_of_control_dependencies_cost_what_the_page_says(
    model: TransferModel, control: ControlMode
) -> None:
    (row,) = (row for row in tables("| control | e, ")[0] if row["control"] == control)
    problem = example(model, control)
    order = order_of(problem)
    outcome = simulate(problem, DEVICE_OF, order)
    assert (outcome.start_ns[-1], outcome.finish_ns[-1]) == span(row[f"e, {model}"])
    assert outcome.step_time_ns == int(row[f"step time, {model}"])
    core = problem.core.simulate(np.array(DEVICE_OF, np.int32), np.array(order, np.int32))
    assert (core.start_ns.tolist(), core.finish_ns.tolist()) == (outcome.start_ns, outcome.finish_ns)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("control", ["order", "signal", "transfer"])
def test_the_checker_accepts_the_plan_of_the_page(model: TransferModel, control: ControlMode) -> None:
    problem = example(model, control)
    solution = Solution(device_of=np.array(DEVICE_OF, np.int32), order=np.array(order_of(problem), np.int32))
    assert check_plan(plan_of(problem, solution), problem.graph, problem.time_ns) == []


@pytest.mark.parametrize("model", MODELS)
def test_the_launches_of_the_page_are_those_of_the_core_the_checker_and_the_oracle(model: TransferModel) -> None:
    (rows,) = tables("| step | launched |")
    problem = example(model, overhead_ns=4)
    order = order_of(problem)
    oracle = simulate(problem, DEVICE_OF, order)
    core = problem.core.simulate(np.array(DEVICE_OF, np.int32), np.array(order, np.int32))
    assert launched(problem, DEVICE_OF, order) == [int(row["launched"]) for row in rows]
    assert list(zip(oracle.start_ns, oracle.finish_ns, strict=True)) == [span(row[model]) for row in rows]
    assert list(zip(core.start_ns.tolist(), core.finish_ns.tolist(), strict=True)) == [span(r[model]) for r in rows]
    solution = Solution(device_of=np.array(DEVICE_OF, np.int32), order=np.array(order, np.int32))
    assert check_plan(plan_of(problem, solution), problem.graph, problem.time_ns) == []


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("launch", ["host-thread", "device-threads", "graphs"])
def test_who_launches_decides_the_step_time_as_the_page_says(model: TransferModel, launch: LaunchMode) -> None:
    (row,) = (row for row in tables("| launch | step time")[0] if row["launch"] == launch)
    problem = example(model, launch=launch, overhead_ns=4)
    order = order_of(problem)
    assert simulate(problem, DEVICE_OF, order).step_time_ns == int(row[f"step time, {model}"])
    core = problem.core.simulate(np.array(DEVICE_OF, np.int32), np.array(order, np.int32))
    assert core.step_time_ns == int(row[f"step time, {model}"])


def moved_example(link_ns: int = 2) -> Problem:
    """The table of moves as a problem: the ops of the graph, with the move that it tells of."""
    (rows,) = tables("| step | device | time | reads |")
    ops = [row for row in rows if row["device"] == "GPU" and "@" not in row["step"]]
    made = {name: int(size.split()[0]) for name, size in (row["makes"].split(", ") for row in ops)}
    names = ["x", *made]
    tensors = tuple(
        Tensor(name=name, size_bytes=made.get(name, 10), role="parameter" if name == "x" else "activation")
        for name in names
    )
    reads = [[name.split("@")[0] for name in row["reads"].split(", ")] for row in ops]
    graph = Graph(
        name="moved example",
        ops=tuple(
            Op(
                name=row["step"],
                kind="elementwise",
                inputs=tuple(map(names.index, read)),
                outputs=(names.index(row["step"]),),
            )
            for row, read in zip(ops, reads, strict=True)
        ),
        tensors=tensors,
    )
    device = Device(name="gpu0", kind="any", memory_bytes=31, launches_itself=True)
    machine = Machine(name="one", devices=(device,), links=((Link(),),), transfer_model="overlapped", launch="graphs")
    time_ns = np.array([[last - first] for first, last in (span(row["time"]) for row in ops)], np.int64)
    problem = Problem(graph=graph, machine=machine, time_ns=time_ns, memory_limits_bytes=(31,))
    link = Link(bandwidth_bytes_per_s=10e9 / link_ns)
    moves = (Move(tensor="a", leaves_before="c", returns_before=("d",)),)
    return with_reruns(problem, (), moves, HostMemory(there=(link,), back=(link,)))


def test_the_moves_of_the_page_are_those_of_the_core_the_checker_and_the_oracle() -> None:
    (rows,) = tables("| step | device | time | reads |")
    problem = moved_example()
    solution = in_order(problem)
    order = [(int(step), int(destination)) for step, destination in solution.order]
    expected = [span(row["time"]) for row in rows]
    oracle = simulate(problem, solution.device_of.tolist(), order)
    core = problem.core.simulate(solution.device_of, solution.order)
    assert list(zip(oracle.start_ns, oracle.finish_ns, strict=True)) == expected
    assert list(zip(core.start_ns.tolist(), core.finish_ns.tolist(), strict=True)) == expected
    assert core.peak_bytes.tolist() == oracle.peak_bytes
    assert oracle.peak_bytes[0] == max(int(row["bytes"]) for row in rows if row["bytes"]) == 31
    # The moves are ops of this graph, which one device alone would have to run.
    plan = replace(plan_of(problem, solution), one_device=None)
    assert check_plan(plan, problem.graph, problem.time_ns) == []
    steps: list[ScheduledOp | Transfer] = [*plan.ops, *plan.transfers]
    steps.sort(key=lambda step: step.position)
    assert [(step.start_ns, step.finish_ns) for step in steps] == expected
    for row, (start, finish) in zip(rows, expected, strict=True):
        if not row["bytes"]:
            continue
        on_gpu = [buffer for buffer in plan.buffers if buffer.device == 0]
        held = [buffer for buffer in on_gpu if buffer.allocated_ns < finish and buffer.freed_ns > start]
        assert sorted(buffer.name for buffer in held) == sorted(row["held on the GPU while it runs"].split())
        assert sum(buffer.size_bytes for buffer in held) == int(row["bytes"])


def test_the_page_says_how_long_a_slow_link_keeps_the_step_waiting() -> None:
    problem = moved_example(10)
    plan = plan_of(problem, in_order(problem))
    starts = {op.name: op.start_ns for op in plan.ops}
    assert (starts["c"], starts["e"], plan.step_time_ns) == (11, 24, 29)
    assert "`c` would start at 11 and `e` at 24, and the step would take 29 ns" in SEMANTICS.read_text()
