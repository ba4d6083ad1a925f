"""Check of a plan against its graph by slow and obvious means: simulate it anew and compare everything exactly."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import fields, replace
from itertools import groupby, zip_longest

import numpy as np
from numpy.typing import NDArray

from placewright.graph import Graph
from placewright.machines.host import parted
from placewright.plans.record import WAITS_FOR_LAUNCH, Plan
from placewright.problem import Problem
from placewright.problem.constraints import placement_groups, recorded_constraints
from placewright.problem.objective import Metrics, largest_peak
from placewright.rematerialization.reruns import of_runs, rewritten
from placewright.support.errors import InputError
from placewright.support.garbage import collection_paused
from placewright.verification.evidence import about_configuration, about_evidence, about_time_sources
from placewright.verification.order import about_order, label, records_of, steps_of
from placewright.verification.replay import (
    Demands,
    Event,
    Held,
    Step,
    demands,
    held_memory,
    launch_times,
    memory_curve,
    moved_bytes,
    signal_ns,
    step_times,
)
from placewright.verification.reruns import about_devices, about_reruns

Times = Sequence[tuple[int, int]]
Curve = Sequence[tuple[Event, int]]


@collection_paused()
def check_plan(
    plan: Plan, graph: Graph, time_ns: NDArray[np.int64], time_origin: NDArray[np.int8] | None = None
) -> list[str]:
    """List the errors of a plan, one sentence each, naming the op, tensor or device; empty when it is right.

    graph: the one that is planned, before reruns. time_ns: int64 [num graph ops, num devices]. time_origin: in the same
    shape, a `costs.TimeOrigin` each; without it the plan's sources of times are not checked. A plan for another graph,
    or one whose placement or order is wrong, is not simulated: the sentences end there. Raises InputError when time_ns
    has another shape.
    """
    machine = plan.machine
    if time_ns.shape != (len(graph.ops), machine.num_devices):
        raise InputError(f"op times have shape {time_ns.shape}, not one row per op and one column per device")
    original, original_time_ns = graph, time_ns
    if plan.reruns or plan.moves:
        try:
            found = rewritten(graph, plan.reruns, plan.moves, plan.device_of)
        except InputError as error:
            return [str(error)]
        if problems := [*about_reruns(graph, found), *about_devices(plan)]:
            return problems
        graph, time_ns = found.graph, of_runs(time_ns, found.op_of, machine.num_devices)
        time_origin = None if time_origin is None else of_runs(time_origin, found.op_of, machine.num_devices)
    wanted = demands(graph, plan.control)
    if problems := about_order(plan, graph, wanted):
        return problems
    steps = steps_of(plan, graph)
    times = step_times(graph, machine, wanted, steps, time_ns, signals=plan.control == "signal")
    held = held_memory(graph, wanted, steps, times)
    curves = _curves(plan, held)
    metrics = _metrics(plan, graph, steps, times, curves, time_ns)
    return [
        *_about_times(plan, wanted, steps, times, launch_times(graph, machine, steps, time_ns)),
        *_about_ops(plan, graph),
        *_about_buffers(plan, held, metrics.step_time_ns),
        *_about_curves(plan, curves),
        *_about_metrics(plan, metrics),
        *about_evidence(plan, metrics, _problem(plan, original, original_time_ns)),
        *about_configuration(plan, graph),
        *about_time_sources(plan, graph, time_origin),
    ]


def _problem(plan: Plan, graph: Graph, time_ns: NDArray[np.int64]) -> Problem:
    """Build the problem for the bounds, on the devices that compute, with the constraints that the configuration
    records; without them if they are unsatisfiable, which `about_configuration` reports."""
    machine, _ = parted(plan.machine)
    problem = Problem(
        graph=graph,
        machine=machine,
        time_ns=np.ascontiguousarray(time_ns[:, : machine.num_devices]),
        objective=plan.objective,
        control=plan.control,
        memory_limits_bytes=plan.memory_limits_bytes[: machine.num_devices],
    )
    constrained = replace(problem, constraints=recorded_constraints(plan.configuration))
    try:
        placement_groups(graph, constrained.lowered, machine, constrained.constraints)
    except InputError:
        return problem
    return constrained


def _curves(plan: Plan, held: Sequence[Held]) -> list[Curve]:
    """Compute the memory curve of each device."""
    on_device: list[list[Held]] = [[] for _ in plan.machine.devices]
    for memory in held:
        on_device[memory.device].append(memory)
    return [memory_curve(own, device) for device, own in enumerate(on_device)]


def _metrics(
    plan: Plan, graph: Graph, steps: Sequence[Step], times: Times, curves: Sequence[Curve], time_ns: NDArray[np.int64]
) -> Metrics:
    peaks = tuple(max(in_use for _, in_use in curve) for curve in curves)
    busy = [0] * plan.machine.num_devices
    for step in steps:
        if step.value is None:
            busy[step.source] += int(time_ns[step.op, step.source])
    moves = [step.value for step in steps if step.value is not None]
    limits = zip(peaks, plan.memory_limits_bytes, strict=True)
    return Metrics(
        step_time_ns=max((t[1] for step, t in zip(steps, times, strict=True) if step.value is None), default=0),
        peak_memory_bytes=largest_peak(plan.machine, peaks),
        peak_bytes=peaks,
        busy_ns=tuple(busy),
        bytes_moved=sum(moved_bytes(graph, value) for value in moves),
        num_transfers=len(moves),
        bytes_over_limit=sum(max(0, peak - limit) for peak, limit in limits if limit is not None),
    )


def _about_times(
    plan: Plan, wanted: Demands, steps: Sequence[Step], times: Times, launched: Sequence[int]
) -> list[str]:
    problems = []
    for record, step, expected, launched_ns in zip(records_of(plan), steps, times, launched, strict=True):
        found = (record.start_ns, record.finish_ns)
        if found != expected:
            problems.append(f"{label(record)} starts and finishes at {found} ns, expected {expected}")
        if record.waits_for == WAITS_FOR_LAUNCH:
            explained = 0 < launched_ns == expected[0]
        else:
            explained = _may_wait_for(plan, wanted, steps, times, step, expected[0], record.waits_for)
        if not explained:
            waits = f"which waiting for position {record.waits_for} does not explain"
            problems.append(f"{label(record)} starts at {expected[0]} ns, {waits}")
    return problems


def _may_wait_for(
    plan: Plan, wanted: Demands, steps: Sequence[Step], times: Times, step: Step, start_ns: int, position: int
) -> bool:
    """True if the step at `position` ends, or its signal arrives, exactly at start_ns; -1 explains a start at 0."""
    if position == -1:
        return start_ns == 0
    if not 0 <= position < len(steps):
        return False
    other, finish = steps[position], times[position][1]
    signals = plan.control == "signal" and step.value is None and other.op in wanted.waits[step.op]
    if signals and other.value is None:
        return start_ns in (finish, signal_ns(plan.machine, other.source, finish, step.source))
    return finish == start_ns


def _about_ops(plan: Plan, graph: Graph) -> list[str]:
    """Check the attributes that the plan repeats from the graph."""
    op_of = {op.name: op for op in graph.ops}
    problems = []
    for record in plan.ops:
        op = op_of[record.name]
        outputs = [graph.tensors[tensor] for tensor in op.outputs]
        own_bytes = sum(tensor.held_bytes for tensor in outputs if tensor.alias_of is None)
        expected = (op.kind, op.module, op.phase, op.source, own_bytes)
        found = (record.kind, record.module, record.phase, record.source, record.output_bytes)
        if found != expected:
            problems.append(f"op '{op.name}' has kind, module, phase, source and output bytes {found}, not {expected}")
    return problems


def _about_buffers(plan: Plan, held: Sequence[Held], end_ns: int) -> list[str]:
    """Check the buffers. Those of no bytes may be listed or not."""
    expected = {
        (m.kind, m.name, m.device): [(m.op, m.size_bytes, m.begin[0], end_ns if m.end is None else m.end[0])]
        for m in held
        if m.size_bytes
    }
    found = defaultdict(list)
    for b in plan.buffers:
        if b.size_bytes:
            found[b.kind, b.name, b.device].append((b.op, b.size_bytes, b.allocated_ns, b.freed_ns))
    problems = []
    for key in sorted(expected.keys() | found.keys()):
        if expected.get(key) != found.get(key):
            what = f"the {key[0]} '{key[1]}' on device {key[2]}"
            problems.append(f"{what} has op, bytes, begin and end {found.get(key)}, expected {expected.get(key)}")
    places = [(buffer.device, buffer.allocated_ns) for buffer in plan.buffers]
    if places != sorted(places):
        problems.append("the plan's buffers are not sorted by device and time of allocation")
    return problems


def _about_curves(plan: Plan, curves: Sequence[Curve]) -> list[str]:
    """Check the memory curves. Events that change nothing may be points of a curve or not."""
    if len(plan.memory_curves) != plan.machine.num_devices:
        return [f"the plan has {len(plan.memory_curves)} memory curves for {plan.machine.num_devices} devices"]
    problems = []
    for device, curve in enumerate(plan.memory_curves):
        expected = [(event[0], in_use) for event, in_use in curves[device]]
        points = zip(curve.time_ns, curve.bytes_in_use, strict=True)
        found = [next(same) for _, same in groupby(points, key=lambda point: point[1])]
        for left, right in zip_longest(found, expected):
            if left != right:
                problems.append(f"the memory curve of device {device} has (ns, bytes) {left}, expected {right}")
                break
    return problems


def _about_metrics(plan: Plan, expected: Metrics) -> list[str]:
    return [
        f"the plan's {field.name} is {found}, expected {value}"
        for field in fields(Metrics)
        if (found := getattr(plan.metrics, field.name)) != (value := getattr(expected, field.name))
    ]
