"""Columns of numbers and strings of a plan for the page's script, short enough to embed with 10,000 ops."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

from placewright.analysis.critical_path import critical_path, launches_of
from placewright.analysis.memory_events import alive_at_peak
from placewright.execution.comparison import RunComparison
from placewright.plans.record import Buffer, MemoryCurve, Plan

#: The most buffers at a device's peak that are drawn one by one; the rest becomes one block.
MAX_TENSORS_AT_PEAK = 1_500
MAX_RESIDENTS_LISTED = 25


def embedded_json(plan: Plan, run: RunComparison | None = None) -> str:
    """Encode the columns as JSON that is safe inside a script element: ASCII, without "<", ">" and "&"."""
    text = json.dumps(columns(plan, run), separators=(",", ":"), ensure_ascii=True)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def columns(plan: Plan, run: RunComparison | None = None) -> dict[str, Any]:
    """Return the data for page/data.js. Strings that repeat (kinds, modules, phases, sources) are indices into
    tables."""
    return {
        "end": plan.metrics.step_time_ns,
        "blocking": plan.machine.transfer_model == "blocking",
        "devices": _devices(plan),
        "ops": _ops(plan),
        "transfers": _transfers(plan),
        "curves": [_curve(curve) for curve in plan.memory_curves],
        "peaks": [_peak(plan, device) for device in range(plan.machine.num_devices)],
        "before": None if plan.input_order_memory is None else _curve(plan.input_order_memory),
        "critical": [step.position for step in critical_path(plan)],
        "launches": _launches(plan),
        "run": None if run is None else _run(plan, run),
    }


def _devices(plan: Plan) -> list[dict[str, Any]]:
    return [
        {"name": device.name, "kind": device.kind, "limit": limit, "peak": peak, "busy": busy}
        for device, limit, peak, busy in zip(
            plan.machine.devices,
            plan.memory_limits_bytes,
            plan.metrics.peak_bytes,
            plan.metrics.busy_ns,
            strict=True,
        )
    ]


def _launches(plan: Plan) -> dict[str, list[int]]:
    """List the positions of the steps that a single host thread launches, in its order, and the duration of each
    launch; they run back to back."""
    made = launches_of(plan) if plan.machine.launch == "host-thread" else []
    return {
        "position": [launch.step.position for launch in made],
        "duration": [launch.finish_ns - launch.start_ns for launch in made],
    }


def _run(plan: Plan, run: RunComparison) -> dict[str, Any]:
    """Return the measured times of ops, by position, and the end of the step."""
    position_of = {op.name: op.position for op in plan.ops}
    return {
        "end": max(op.measured_finish_ns for op in run.ops),
        "position": [position_of[op.name] for op in run.ops],
        "start": [op.measured_start_ns for op in run.ops],
        "duration": [op.measured_finish_ns - op.measured_start_ns for op in run.ops],
    }


def _ops(plan: Plan) -> dict[str, Any]:
    ops = plan.ops
    return {
        "name": [op.name for op in ops],
        "kind": _interned(op.kind for op in ops),
        "module": _interned(op.module for op in ops),
        "phase": _interned(op.phase for op in ops),
        "source": _interned(op.source for op in ops),
        "device": [op.device for op in ops],
        "position": [op.position for op in ops],
        "start": [op.start_ns for op in ops],
        "duration": [op.finish_ns - op.start_ns for op in ops],
        "waits": [op.waits_for for op in ops],
        "bytes": [op.output_bytes for op in ops],
    }


def _transfers(plan: Plan) -> dict[str, Any]:
    transfers = plan.transfers
    index_of = {op.name: index for index, op in enumerate(plan.ops)}
    return {
        "name": [transfer.tensor for transfer in transfers],
        "producer": [index_of.get(transfer.producer, -1) for transfer in transfers],
        "source": [transfer.source for transfer in transfers],
        "destination": [transfer.destination for transfer in transfers],
        "position": [transfer.position for transfer in transfers],
        "start": [transfer.start_ns for transfer in transfers],
        "duration": [transfer.finish_ns - transfer.start_ns for transfer in transfers],
        "waits": [transfer.waits_for for transfer in transfers],
        "bytes": [transfer.size_bytes for transfer in transfers],
    }


def _interned(values: Iterable[str]) -> dict[str, list[Any]]:
    """Return a table of the distinct values, and for each value its index there."""
    table: dict[str, int] = {}
    places = [table.setdefault(value, len(table)) for value in values]
    return {"table": list(table), "at": places}


def _curve(curve: MemoryCurve) -> dict[str, list[int]]:
    """Encode a curve by the differences between successive points, which are shorter to write than the points."""
    return {"time": _differences(curve.time_ns), "bytes": _differences(curve.bytes_in_use)}


def _differences(values: Sequence[int]) -> list[int]:
    return [*values[:1], *(after - before for before, after in pairwise(values))]


def _peak(plan: Plan, device: int) -> dict[str, Any]:
    """List the buffers alive at a device's peak in order of allocation; beyond a maximum number, the smallest only as a
    sum."""
    time, alive = alive_at_peak(plan, device)
    residents = sorted((b for b in alive if b.kind == "resident"), key=lambda b: (-b.size_bytes, b.name))
    others = [buffer for buffer in alive if buffer.kind != "resident"]
    smallest = sorted(others, key=lambda b: -b.size_bytes)[MAX_TENSORS_AT_PEAK:]
    left_out = {id(buffer) for buffer in smallest}
    drawn = [buffer for buffer in others if id(buffer) not in left_out]
    return {
        "time": time,
        "tensors": _buffers(drawn, {op.name: index for index, op in enumerate(plan.ops)}),
        "rest": {"count": len(smallest), "bytes": sum(buffer.size_bytes for buffer in smallest)},
        "residents": {
            "count": len(residents),
            "bytes": sum(buffer.size_bytes for buffer in residents),
            "biggest": [[buffer.name, buffer.size_bytes] for buffer in residents[:MAX_RESIDENTS_LISTED]],
        },
    }


def _buffers(buffers: Sequence[Buffer], index_of: dict[str, int]) -> dict[str, Any]:
    return {
        "name": [buffer.name for buffer in buffers],
        "kind": _interned(buffer.kind for buffer in buffers),
        "op": [index_of.get(buffer.op, -1) for buffer in buffers],
        "bytes": [buffer.size_bytes for buffer in buffers],
        "from": [buffer.allocated_ns for buffer in buffers],
        "to": [buffer.freed_ns for buffer in buffers],
    }
