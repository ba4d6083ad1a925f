"""A trace for ui.perfetto.dev in the Trace Event Format: one process per device, one thread per engine; one process for
the critical path; and if the plan was run, one more process per device with the measured times.

Source: "Trace Event Format" (Google), phases M, X, C, i, s, f. Process and thread ids start at 1 and 100, because 0 is
the idle task there; thread ids are unique across processes.
"""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Iterable, Iterator
from itertools import count, groupby
from pathlib import Path
from typing import Any

from placewright.analysis.critical_path import critical_path
from placewright.analysis.memory_events import memory_events
from placewright.execution.comparison import RunComparison
from placewright.graph import Graph
from placewright.plans.record import Plan, ScheduledOp, Transfer
from placewright.support.files import write_atomically
from placewright.support.garbage import collection_paused
from placewright.support.quantities import format_bytes
from placewright.verification.replay import demands

_Event = dict[str, Any]
_ALL = "memory in use"
#: The name of each kind of buffer among the counters.
_KINDS = {
    "resident": "memory: parameters",
    "tensor": "memory: tensors",
    "copy": "memory: copies",
    "workspace": "memory: workspace",
}


@collection_paused()
def to_bytes(plan: Plan, graph: Graph | None = None, run: RunComparison | None = None) -> bytes:
    """Write JSON with metadata, slices, memory counters and flows from producers over transfers to their readers. Only
    the plan's graph says which ops read a transfer; without it, flows go to the ops that waited for the transfer. run:
    the measurements of the plan."""
    readers = _waiting(plan) if graph is None else _readers(plan, graph)
    measured = [] if run is None else _measured(plan, run)
    described = _metadata(plan, "" if run is None else ", planned")
    events = [*described, *_slices(plan), *_critical_path(plan), *_memory(plan), *_flows(plan, readers), *measured]
    trace = {
        "displayTimeUnit": "ns",
        "otherData": {"graph": plan.graph_name, "placewright": plan.version, "solver": plan.solver},
        "traceEvents": events,
    }
    return json.dumps(trace, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "backslashreplace")


def write_run_trace(plan: Plan, path: str | Path, run: RunComparison) -> None:
    """Write a trace of a plan and of its measured run, compressed when the name ends in .gz.

    run: the result of a compiled module's `compare` for this plan. Raises InputError when the file cannot be written.
    """
    data = to_bytes(plan, run=run)
    write_atomically(path, gzip.compress(data, compresslevel=6, mtime=0) if str(path).endswith(".gz") else data)


def _process(device: int) -> int:
    return device + 1


def _compute_thread(device: int) -> int:
    return 100 * _process(device)


def _link_thread(source: int, destination: int) -> int:
    return 100 * _process(source) + _process(destination)


def _microseconds(time_ns: int) -> float:
    """Return a double that gives `time_ns` back when multiplied by 1000 and truncated, as Perfetto's reader does."""
    value = time_ns / 1000
    return value if int(value * 1000) == time_ns else math.nextafter(value, math.inf)


def _metadata(plan: Plan, what: str) -> Iterator[_Event]:
    """Yield the names of processes and threads. what: appended to every device's name."""
    for index, device in enumerate(plan.machine.devices):
        label = device.name if device.kind == device.name else f"{device.name} ({device.kind})"
        yield from _process_names(_process(index), f"{label}{what}", index)
        yield from _thread_names(index, _compute_thread(index), "compute", 0)
    for source, destination in sorted({(transfer.source, transfer.destination) for transfer in plan.transfers}):
        name = f"link to {plan.machine.devices[destination].name}"
        yield from _thread_names(source, _link_thread(source, destination), name, 1 + destination)


def _process_names(process: int, name: str, sort_index: int) -> Iterator[_Event]:
    named = {"ph": "M", "pid": process}
    yield {**named, "name": "process_name", "args": {"name": name}}
    yield {**named, "name": "process_sort_index", "args": {"sort_index": sort_index}}


def _thread_names(device: int, thread: int, name: str, sort_index: int) -> Iterator[_Event]:
    named = {"ph": "M", "pid": _process(device), "tid": thread}
    yield {**named, "name": "thread_name", "args": {"name": name}}
    yield {**named, "name": "thread_sort_index", "args": {"sort_index": sort_index}}


def _slices(plan: Plan) -> Iterator[_Event]:
    for op in plan.ops:
        yield {**_op_place(op), **_times(op), "ph": "X", "name": op.name, "cat": op.kind, "args": _op_arguments(op)}
    for transfer in plan.transfers:
        arguments = {
            "producer": transfer.producer,
            "bytes": transfer.size_bytes,
            "position": transfer.position,
            "waits for": transfer.waits_for,
        }
        kind = {"ph": "X", "name": transfer.tensor, "cat": "transfer", "args": arguments}
        yield {**_transfer_place(transfer), **_times(transfer), **kind}


def _op_place(op: ScheduledOp) -> _Event:
    return {"pid": _process(op.device), "tid": _compute_thread(op.device)}


def _transfer_place(transfer: Transfer) -> _Event:
    return {"pid": _process(transfer.source), "tid": _link_thread(transfer.source, transfer.destination)}


def _times(step: ScheduledOp | Transfer) -> _Event:
    return {"ts": _microseconds(step.start_ns), "dur": _microseconds(step.finish_ns - step.start_ns)}


def _op_arguments(op: ScheduledOp) -> _Event:
    told = {"kind": op.kind, "module": op.module, "phase": op.phase, "source": op.source}
    numbers = {"output bytes": op.output_bytes, "position": op.position, "waits for": op.waits_for}
    return {key: value for key, value in told.items() if value} | numbers


def _critical_path(plan: Plan) -> Iterator[_Event]:
    """Yield the steps of the critical path once more, on a track of their own above the devices."""
    process = _process(plan.machine.num_devices)
    yield from _process_names(process, "critical path", -1)
    yield from _thread_names(plan.machine.num_devices, 100 * process, "steps that decide the step time", 0)
    for step in critical_path(plan):
        name = step.tensor if isinstance(step, Transfer) else step.name
        slice_ = {"ph": "X", "pid": process, "tid": 100 * process, "name": name, "cat": "critical path"}
        yield {**slice_, **_times(step), "args": {"where": _where(plan, step), "position": step.position}}


def _measured(plan: Plan, run: RunComparison) -> Iterator[_Event]:
    """Yield the measured ops, one process per device below those of the plan."""
    first = plan.machine.num_devices + 1
    position_of = {op.name: op.position for op in plan.ops}
    for index, device in enumerate(plan.machine.devices):
        yield from _process_names(_process(first + index), f"{device.name}, measured", first + index)
        yield from _thread_names(first + index, _compute_thread(first + index), "compute", 0)
    for op in run.ops:
        place = {"pid": _process(first + op.device), "tid": _compute_thread(first + op.device)}
        times = {"ts": _microseconds(op.measured_start_ns),
                 "dur": _microseconds(op.measured_finish_ns - op.measured_start_ns)}  # fmt: skip
        planned = {"planned start": op.planned_start_ns, "planned duration": op.planned_finish_ns - op.planned_start_ns}
        arguments = {"kind": op.kind, "position": position_of[op.name], **planned}
        yield {**place, **times, "ph": "X", "name": op.name, "cat": op.kind, "args": arguments}


def _where(plan: Plan, step: ScheduledOp | Transfer) -> str:
    devices = plan.machine.devices
    if isinstance(step, Transfer):
        return f"{devices[step.source].name} to {devices[step.destination].name}"
    return devices[step.device].name


def _memory(plan: Plan) -> Iterator[_Event]:
    """Yield per device the counters of all memory and of each kind, and an instant at the peak."""
    for device in range(plan.machine.num_devices):
        states = list(_in_use(plan, device))
        peak_ns, highest = max(states, key=lambda state: state[1][_ALL], default=(0, {_ALL: 0}))
        peak = f"peak {format_bytes(highest[_ALL])}"
        yield {"ph": "i", "s": "p", "pid": _process(device), "name": peak, "ts": _microseconds(peak_ns)}
        last: dict[str, int] = {}
        for time, in_use in states:
            for name, size in in_use.items():
                if last.get(name, 0) != size or name == _ALL:
                    counter = {"ph": "C", "pid": _process(device), "name": name, "ts": _microseconds(time)}
                    yield {**counter, "args": {"bytes": size}}
            last = in_use


def _in_use(plan: Plan, device: int) -> Iterator[tuple[int, dict[str, int]]]:
    """Yield (time, bytes by name of the counter). Perfetto shows only the last of several events at one instant, so the
    counters are taken where most memory is in use; at the end of the step, after the last event."""
    in_use = dict.fromkeys((_ALL, *_KINDS.values()), 0)
    every = memory_events(plan, device)
    for time, events in groupby(every, key=lambda event: event.time_ns):
        most = {_ALL: -1}
        for event in events:
            size = event.buffer.size_bytes if event.allocates else -event.buffer.size_bytes
            for name in (_ALL, _KINDS[event.buffer.kind]):
                in_use[name] += size
            if in_use[_ALL] > most[_ALL]:
                most = dict(in_use)
        yield time, dict(in_use) if time == every[-1].time_ns else most


def _waiting(plan: Plan) -> Iterator[tuple[Transfer, ScheduledOp]]:
    """Yield each op whose start waited for a transfer, with that transfer."""
    transfers = {transfer.position: transfer for transfer in plan.transfers}
    for op in plan.ops:
        if (awaited := transfers.get(op.waits_for)) is not None:
            yield awaited, op


def _readers(plan: Plan, graph: Graph) -> Iterator[tuple[Transfer, ScheduledOp]]:
    """Yield each op that reads a tensor moved to its device, with the transfer."""
    transfers = {(transfer.tensor, transfer.destination): transfer for transfer in plan.transfers}
    ops = {op.name: op for op in plan.ops}
    for index, values in demands(graph, plan.control).reads.items():
        reader = ops[graph.ops[index].name]
        for value in sorted(values):
            moved = transfers.get((graph.tensors[value].name, reader.device)) if value >= 0 else None
            if moved is not None:
                yield moved, reader


def _flows(plan: Plan, readers: Iterable[tuple[Transfer, ScheduledOp]]) -> Iterator[_Event]:
    """Yield arrows: producer -> transfer -> reader."""
    producers = {op.name: op for op in plan.ops}
    identities = count()
    for transfer in plan.transfers:
        if (producer := producers.get(transfer.producer)) is not None:
            start = {**_op_place(producer), "ts": _microseconds(_last_moment(producer))}
            yield from _arrow(next(identities), start, _beginning(_transfer_place(transfer), transfer))
    for transfer, op in readers:
        start = {**_transfer_place(transfer), "ts": _microseconds(_last_moment(transfer))}
        yield from _arrow(next(identities), start, _beginning(_op_place(op), op))


def _last_moment(step: ScheduledOp | Transfer) -> int:
    """Return the last nanosecond inside the slice: an arrow from its end would belong to the next slice."""
    return max(step.start_ns, step.finish_ns - 1)


def _beginning(place: _Event, step: ScheduledOp | Transfer) -> _Event:
    return {**place, "ts": _microseconds(step.start_ns)}


def _arrow(identity: int, start: _Event, end: _Event) -> Iterator[_Event]:
    common = {"name": "transfer", "cat": "transfer", "id": identity}
    yield {**common, **start, "ph": "s"}
    yield {**common, **end, "ph": "f", "bp": "e"}
