"""Slow and obvious simulation: what a graph demands of a schedule, and what an order costs. It shares no code with the
lowering or the core, so that the checker can judge both. Every rule is docs/semantics.md, read straight off the graph.

A *value* is the content of a transfer: a tensor, named by its index, or the empty control tensor of op i, named -1 - i.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from placewright.graph import HOST_TARGET, Graph
from placewright.machine import Machine
from placewright.plans.record import BufferKind
from placewright.problem.objective import ControlMode

Event = tuple[int, int, int]  # time, position in the order, 0 for a start and 1 for a finish
BEGIN: Event = (0, -1, 0)  # before every step


@dataclass(frozen=True, kw_only=True)
class Demands:
    """The graph's demands on every plan, by graph index of the ops that are not views.

    reads: values made by other ops. waits: ops that must run before it although it reads none of their values.
    residents: parameters and constants that it holds. maker: the op that makes each value that is read.
    """

    reads: Mapping[int, set[int]]
    waits: Mapping[int, set[int]]
    residents: Mapping[int, set[int]]
    maker: Mapping[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One position of the order: an op (value is None, source and destination are its device), or the transfer of a
    value made by `op`."""

    op: int
    value: int | None
    source: int
    destination: int


@dataclass(frozen=True, slots=True)
class Held:
    """Memory in use from one event to another, or to the end of the step if there is no end. kind and name as in
    Buffer."""

    kind: BufferKind
    name: str
    op: str
    device: int
    size_bytes: int
    begin: Event
    end: Event | None


def demands(graph: Graph, control: ControlMode) -> Demands:
    """Collect the reads, waits and residents of every op, with views passed through."""
    sent, behind, beside = _through_views(graph)
    reads: dict[int, set[int]] = {}
    waits: dict[int, set[int]] = {}
    residents: dict[int, set[int]] = {}
    for index, op in enumerate(graph.ops):
        if op.kind == "view":
            continue
        overwritten = {graph.tensors[t].alias_of for t in op.outputs} - {None, *op.outputs}
        touched = {*op.inputs, *(t for t in overwritten if t is not None)}
        values = {sent[t] for t in touched}
        bases = {graph.base_of[t] for t in op.outputs}
        reads[index] = {t for t in values if graph.producer_of[t] >= 0}
        residents[index] = {t for t in values | bases if graph.producer_of[t] < 0}
        waits[index] = _union([*(behind[c] for c in op.controls), *(beside[t] for t in touched)])
        if control == "transfer":
            reads[index] |= {-1 - before for before in waits[index]}
            waits[index] = set()
    values = _union(reads.values())
    maker = {value: _maker(graph, value) if value >= 0 else -1 - value for value in values}
    return Demands(reads=reads, waits=waits, residents=residents, maker=maker)


def _through_views(graph: Graph) -> tuple[list[int], list[set[int]], list[set[int]]]:
    """Build three tables. sent[tensor]: the tensor sent to a reader elsewhere. For a view as large as its base, a view
    of a parameter, or a view of a tensor that comes back from the host, it is the base; otherwise the tensor itself.
    behind[op]: the ops that have run when it is done: itself, or for a view all that it needs. beside[tensor]: for a
    view, the ops that it needs besides the maker of its base."""
    sent = list(range(len(graph.tensors)))
    behind: list[set[int]] = []
    beside: list[set[int]] = [set() for _ in graph.tensors]
    for index, op in enumerate(graph.ops):
        if op.kind != "view":
            behind.append({index})
            continue
        makers = {t: behind[graph.producer_of[t]] if graph.producer_of[t] >= 0 else set[int]() for t in op.inputs}
        controls = [behind[c] for c in op.controls]
        behind.append(_union([*controls, *makers.values()]))
        for view in op.outputs:
            shown = _shown_by(graph, view)
            others = [ops for tensor, ops in makers.items() if tensor != shown]
            beside[view] = _union([*controls, *others, beside[shown]])
            whole = graph.tensors[view].size_bytes >= graph.tensors[sent[shown]].size_bytes
            maker = graph.producer_of[sent[shown]]
            comes_whole = maker < 0 or graph.ops[maker].target == HOST_TARGET
            sent[view] = sent[shown] if whole or comes_whole else view
    return sent, behind, beside


def _union(sets: Iterable[set[int]]) -> set[int]:
    return set[int]().union(*sets)


def _shown_by(graph: Graph, view: int) -> int:
    shown = graph.tensors[view].alias_of
    assert shown is not None, "a view aliases its input"
    return shown


def _maker(graph: Graph, tensor: int) -> int:
    """Find the op, not a view, that makes the base of `tensor`."""
    while graph.ops[graph.producer_of[tensor]].kind == "view":
        tensor = _shown_by(graph, tensor)
    return graph.producer_of[tensor]


def in_place_memory(graph: Graph, wanted: Demands) -> Iterator[tuple[list[int], list[int]]]:
    """Yield per overwritten memory the ops that write it in place, and those that must share their device: the maker of
    the memory, or all ops that hold it as a parameter."""
    writers: dict[int, list[int]] = defaultdict(list)
    for op in wanted.reads:
        for base in {graph.base_of[t] for t in graph.ops[op].outputs if graph.tensors[t].alias_of is not None}:
            writers[base].append(op)
    holders: dict[int, list[int]] = defaultdict(list)
    for op, own in wanted.residents.items():
        for base in own & writers.keys():
            holders[base].append(op)
    for base, ops in writers.items():
        maker = graph.producer_of[base]
        yield ops, [maker] if maker >= 0 else holders[base]


def step_times(
    graph: Graph, machine: Machine, wanted: Demands, steps: Sequence[Step], time_ns: NDArray[np.int64], *, signals: bool
) -> list[tuple[int, int]]:
    """Compute start and finish of every step, in the machine's transfer model. signals: True if a wait takes time."""
    launched = launch_times(graph, machine, steps, time_ns)
    blocking = machine.transfer_model == "blocking"
    free_at: dict[object, int] = defaultdict(int)
    done: dict[int, tuple[int, int]] = {}
    arrival: dict[tuple[int, int], int] = {}
    times = []
    for position, step in enumerate(steps):
        if step.value is None:
            engines: list[object] = [step.source]
            earliest = [arrival.get((value, step.source), 0) for value in wanted.reads[step.op]]
            if signals:
                earliest += [signal_ns(machine, *done[before], step.source) for before in wanted.waits[step.op]]
        else:
            engines = [step.source, step.destination] if blocking else [(step.source, step.destination)]
            earliest = [done[step.op][1]]
        duration = _duration_ns(graph, machine, step, time_ns)
        start = max([launched[position], *earliest, *(free_at[engine] for engine in engines)])
        free_at.update(dict.fromkeys(engines, start + duration))
        times.append((start, start + duration))
        if step.value is None:
            done[step.op] = (step.source, start + duration)
        else:
            arrival[step.value, step.destination] = start + duration
    return times


def launch_times(graph: Graph, machine: Machine, steps: Sequence[Step], time_ns: NDArray[np.int64]) -> list[int]:
    """Compute when its host thread has launched each step; 0 where none does. A host launches in the order of the steps
    and never waits; steps that take no time are not launched."""
    clock: dict[int, int] = defaultdict(int)
    launched = []
    for step in steps:
        launcher = machine.launcher(step.source, step.destination)
        if launcher < 0 or _duration_ns(graph, machine, step, time_ns) == 0:
            launched.append(0)
            continue
        clock[machine.hosts[launcher]] += machine.devices[launcher].launch_overhead_ns
        launched.append(clock[machine.hosts[launcher]])
    return launched


def _duration_ns(graph: Graph, machine: Machine, step: Step, time_ns: NDArray[np.int64]) -> int:
    if step.value is None:
        return int(time_ns[step.op, step.source])
    return machine.links[step.source][step.destination].transfer_time_ns(moved_bytes(graph, step.value))


def signal_ns(machine: Machine, source: int, finish_ns: int, destination: int) -> int:
    """Return the time at which `destination` learns that an op on `source` has finished."""
    return finish_ns if source == destination else finish_ns + machine.links[source][destination].latency_ns


def moved_bytes(graph: Graph, value: int) -> int:
    """Return the size of a transfer: all of a tensor, nothing of a control tensor."""
    return graph.tensors[value].size_bytes if value >= 0 else 0


def held_memory(graph: Graph, wanted: Demands, steps: Sequence[Step], times: Sequence[tuple[int, int]]) -> list[Held]:
    """List everything that takes memory on any device: residents, tensors at home and workspace, copies elsewhere."""
    device = {step.op: step.source for step in steps if step.value is None}
    at_home, elsewhere = _uses(graph, wanted, steps, times, device)
    kept = {graph.base_of[index] for index, tensor in enumerate(graph.tensors) if tensor.is_output}
    held = [
        _held(graph, "resident", tensor, where, "", BEGIN, None)
        for tensor, where in sorted({(tensor, device[op]) for op, own in wanted.residents.items() for tensor in own})
    ]
    for position, (step, (start, finish)) in enumerate(zip(steps, times, strict=True)):
        op, where, begin, end = graph.ops[step.op], step.destination, (start, position, 0), (finish, position, 1)
        if step.value is None:
            held.append(Held("workspace", op.name, op.name, where, op.workspace_bytes, begin, end))
            for tensor in op.outputs:
                if graph.tensors[tensor].alias_of is None:
                    last = None if tensor in kept else max(at_home[tensor], default=end)
                    held.append(_held(graph, "tensor", tensor, where, op.name, begin, last))
        elif step.value >= 0:
            held.append(_held(graph, "copy", step.value, where, op.name, begin, max(elsewhere[step.value, where])))
    return held


def _held(graph: Graph, kind: BufferKind, tensor: int, device: int, op: str, begin: Event, end: Event | None) -> Held:
    return Held(kind, graph.tensors[tensor].name, op, device, graph.tensors[tensor].held_bytes, begin, end)


def _uses(
    graph: Graph,
    wanted: Demands,
    steps: Sequence[Step],
    times: Sequence[tuple[int, int]],
    device: Mapping[int, int],
) -> tuple[dict[int, list[Event]], dict[tuple[int, int], list[Event]]]:
    """Collect the finish events of the readers of each tensor: for the memory at home, by the tensor that owns it; for
    copies, by tensor and device. A transfer reads at home."""
    at_home: dict[int, list[Event]] = defaultdict(list)
    elsewhere: dict[tuple[int, int], list[Event]] = defaultdict(list)
    for position, (step, (_, finish)) in enumerate(zip(steps, times, strict=True)):
        for value in wanted.reads[step.op] if step.value is None else [step.value]:
            if value >= 0 and device[wanted.maker[value]] == step.source:
                at_home[graph.base_of[value]].append((finish, position, 1))
            elif value >= 0:
                elsewhere[value, step.source].append((finish, position, 1))
    return at_home, elsewhere


def memory_curve(held: Iterable[Held], device: int) -> list[tuple[Event, int]]:
    """List the bytes in use on a device after each event that changes them; the first entry is the residents, at time
    0."""
    change: dict[Event, int] = defaultdict(int)
    change[BEGIN] = 0
    for memory in held:
        if memory.device == device:
            change[memory.begin] += memory.size_bytes
            if memory.end is not None:
                change[memory.end] -= memory.size_bytes
    in_use, curve = 0, []
    for event in sorted(change):
        in_use += change[event]
        if event == BEGIN or change[event] != 0:
            curve.append((event, in_use))
    return curve
