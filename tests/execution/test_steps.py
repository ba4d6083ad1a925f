"""Steps of devices, run by a slow interpreter that forgets what is released and checks what each op finds."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from instances import graph_of, machine_of, plan_of, problem_of
from strategies import solved

from placewright.execution.steps import Receive, Release, Run, Send, Signal, Step, Steps, Wait, needs_of, steps_of
from placewright.graph import Graph
from placewright.machine import Link
from placewright.problem import Problem
from placewright.search.run.result import Solution
from placewright.support.errors import InputError


def executed(steps: Steps, graph: Graph, devices: Sequence[int]) -> dict[int, list[int]]:
    """Runs the steps as real devices might, always the first device of `devices` that can go on; returns the ops of
    each device in turn. Every tensor is the version that its op made; overwriting makes the old version another."""
    resident = {tensor for tensor, op in enumerate(graph.producer_of) if op < 0}
    here: list[set[int]] = [set(resident) for _ in steps.of_device]
    next_step = [0] * len(steps.of_device)
    sent: dict[int, int | None] = {}
    used: set[int] = set()
    done: dict[int, list[int]] = {device: [] for device in devices}
    finished: list[int] = []
    controls = {op: graph.ops[op].controls for op in range(len(graph.ops))}

    def can_go(device: int) -> bool:
        if next_step[device] == len(steps.of_device[device]):
            return False
        step = steps.of_device[device][next_step[device]]
        return not isinstance(step, Receive | Wait) or step.channel in sent

    def go(device: int, step: Step) -> None:
        if isinstance(step, Run):
            op = graph.ops[step.op]
            assert set(needs_of(step.op, graph)) <= here[device], f"{op.name} reads what is not there"
            if op.kind != "view":
                late = [c for c in controls[step.op] if graph.ops[c].kind != "view" and c not in finished]
                assert not late, f"{op.name} runs before what it must follow"
                assert step.op not in finished
            here[device].update(op.outputs)
            done[device].append(step.op)
            finished.append(step.op)
        elif isinstance(step, Send | Signal):
            assert step.channel not in used
            used.add(step.channel)
            if isinstance(step, Send):
                assert step.tensor in here[device]
            sent[step.channel] = step.tensor if isinstance(step, Send) else None
        elif isinstance(step, Receive | Wait):
            tensor = sent.pop(step.channel)
            assert tensor == (step.tensor if isinstance(step, Receive) else None)
            if tensor is not None:
                here[device].add(tensor)
        elif isinstance(step, Release):
            assert set(step.tensors) <= here[device]
            assert not resident & set(step.tensors)
            here[device] -= set(step.tensors)

    while ready := [device for device in devices if can_go(device)]:
        go(ready[0], steps.of_device[ready[0]][next_step[ready[0]]])
        next_step[ready[0]] += 1
    assert next_step == [len(each) for each in steps.of_device], "devices wait for each other"
    assert not sent, "something was sent and never taken"
    assert used == set(range(steps.num_channels))
    for tensor, device in steps.output_device.items():
        assert tensor in here[device]
    for device, tensors in enumerate(here):
        kept = {tensor for tensor, holder in steps.output_device.items() if holder == device}
        assert tensors == resident | kept, "something is never released"
    return done


@given(solved())
def test_every_op_finds_its_inputs_whoever_is_fastest(case: tuple[Problem, Solution]) -> None:
    problem, solution = case
    plan = plan_of(problem, solution)
    graph = problem.graph
    steps = steps_of(plan, graph)
    devices = list(range(problem.machine.num_devices))
    for order in (devices, devices[::-1]):
        done = executed(steps, graph, order)
        for device, ops in done.items():
            scheduled = [graph.ops[op].name for op in ops if graph.ops[op].kind != "view"]
            assert scheduled == [op.name for op in plan.ops if op.device == device]


def test_the_steps_of_two_devices_by_hand() -> None:
    """b on device 0 and c on device 1 read what a on device 0 makes; d on device 1 reads what b and c make. Two tensors
    are sent; c waits for the first only, so that it runs at the same time as b."""
    graph = graph_of({"a": ("", 1), "b": ("a", 1), "c": ("a", 1), "d": ("b c", 1)})
    problem = problem_of(graph, machine_of(2))
    # op a, ta to device 1, op b, op c, tb to device 1, op d; in the order of ops and tensors of the problem.
    order = np.array([(0, -1), (0, 1), (1, -1), (2, -1), (1, 1), (3, -1)], np.int32)
    plan = plan_of(problem, Solution(device_of=np.array([0, 0, 1, 1], np.int32), order=order))
    steps = steps_of(plan, graph)
    assert steps.of_device[0] == (Run(0), Send(0, 1, 0), Run(1), Release((0,)), Send(1, 1, 1), Release((1,)))
    assert steps.of_device[1] == (
        *(Receive(0, 0, 0), Run(2), Release((0,))),
        *(Receive(1, 0, 1), Run(3), Release((1, 2, 3))),
    )


def test_what_the_plan_sends_while_an_op_runs_is_sent_before_that_op() -> None:
    """A transfer takes 5 ns. The one of a goes from 1 to 6, so that b's, whose tensor is there at 2, goes from 6 to 11.
    Device 0 then runs x, from 2 to 12; if what b makes were sent after x, it would be late by 6 ns."""
    graph = graph_of({"a": ("", 1), "b": ("a", 1), "x": ("b", 1), "c": ("a", 1), "d": ("b", 1)})
    problem = problem_of(graph, machine_of(2, Link(latency_ns=5)), [1, 1, 10, 1, 1])
    order = np.array([(0, -1), (0, 1), (1, -1), (2, -1), (3, -1), (1, 1), (4, -1)], np.int32)
    plan = plan_of(problem, Solution(device_of=np.array([0, 0, 0, 1, 1], np.int32), order=order))
    assert [transfer.start_ns for transfer in plan.transfers] == [1, 6]
    assert steps_of(plan, graph).of_device[0] == (
        *(Run(0), Send(0, 1, 0), Run(1), Release((0,)), Send(1, 1, 1)),
        *(Run(2), Release((1, 2))),
    )


def test_a_plan_without_a_transfer_that_it_needs_is_refused() -> None:
    graph = graph_of({"a": ("", 1), "b": ("a", 1)})
    problem = problem_of(graph, machine_of(2))
    order = np.array([(0, -1), (0, 1), (1, -1)], np.int32)
    plan = plan_of(problem, Solution(device_of=np.array([0, 1], np.int32), order=order))
    with pytest.raises(InputError, match="reads the tensor 'a:0' on device 1, where it never arrives"):
        steps_of(replace(plan, transfers=()), graph)
