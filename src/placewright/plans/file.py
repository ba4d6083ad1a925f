"""Plan files: JSON, compressed when the name ends in .gz. docs/formats.md describes every key.

`read_plan` checks that a plan is consistent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from placewright.importers.json_graph import unpack
from placewright.machine import Machine
from placewright.machines import machine_from_json, machine_to_json
from placewright.plans.record import SCHEMA_VERSION, Buffer, Plan, ScheduledOp, Transfer
from placewright.rematerialization.reruns import Move, Rerun
from placewright.support.errors import InputError, other_version, parser_message, shown
from placewright.support.files import read_bytes
from placewright.support.garbage import collection_paused
from placewright.support.records import document_of, dumps, kind_in, model_of, read_values, write_document

if TYPE_CHECKING:
    from pydantic import BaseModel

#: The lists of a plan that are written as one list per field.
_COLUMNS: Mapping[str, type] = {
    "ops": ScheduledOp,
    "transfers": Transfer,
    "buffers": Buffer,
    "reruns": Rerun,
    "moves": Move,
}
#: Fields that are left out where they are empty, with their default values.
_OPTIONAL: Mapping[str, Any] = {"reruns": None, "moves": None, "memory_floor_op": ""}


@collection_paused()
def write_plan(plan: Plan, path: str | Path) -> None:
    """Write the plan so that `read_plan` gives it back equal; gzipped when the name ends in .gz.

    Raises InputError when the file cannot be written; nothing is left half-written.
    """
    document = {"schema_version": SCHEMA_VERSION, **document_of(plan, _COLUMNS)}
    document["machine"] = machine_to_json(plan.machine)
    for key in _OPTIONAL:
        if not getattr(plan, key):
            del document[key]
    write_document(document, path)


@collection_paused()
def read_plan(path: str | Path) -> Plan:
    """Read the plan in a file. Raises InputError naming the file, the field and what is wrong with it."""
    name = str(path)
    data = unpack(read_bytes(path), name)
    try:
        values = read_values(_model(), data, name, "plan", _COLUMNS)
    except InputError:
        if kind := kind_in(data):
            raise InputError(f"'{name}' is a {kind.replace('-', ' ')}, and this needs a plan") from None
        _check_version(data, name)
        raise
    if values.pop("schema_version") != SCHEMA_VERSION or b"NaN" in data or b"Infinity" in data:
        _check_version(data, name)
    try:
        plan = Plan(**{**values, "machine": _machine(values["machine"])})
        check_consistency(plan)
    except InputError as error:
        raise InputError(f"'{name}': {error}") from None
    return plan


def _machine(value: object) -> Machine:
    try:
        return machine_from_json(value)
    except InputError as error:
        raise InputError(f"machine: {error}") from None


@cache
def _model() -> type[BaseModel]:
    """Build the schema of a plan file from the fields of Plan."""
    columns: dict[str, Any] = {key: model_of(kind, columns=True) for key, kind in _COLUMNS.items()}
    columns |= {key: columns[key] | None for key in ("reruns", "moves")}
    replaced = {"schema_version": int, "machine": Any, "configuration": dict[str, Any], **columns}
    return model_of(Plan, replaced, optional=_OPTIONAL)


def _check_version(data: bytes, name: str) -> None:
    from pydantic_core import from_json

    try:
        document = from_json(data, allow_inf_nan=False)
    except ValueError as error:
        raise InputError(f"'{name}' is not valid JSON: {parser_message(error)}") from None
    if not isinstance(document, dict) or "schema_version" not in document:
        raise InputError(f"'{name}' is not a plan: it has no schema_version")
    found = document["schema_version"]
    # A graph file has a version of its own too, but lacks a key that every plan has.
    if (found != SCHEMA_VERSION or isinstance(found, bool)) and "graph_name" in document:
        found = found if isinstance(found, int) and not isinstance(found, bool) else dumps(found)
        raise InputError(f"'{name}' {other_version(found, SCHEMA_VERSION, 'placewright plan')}")


def check_consistency(plan: Plan) -> None:
    """Check the relations between fields that readers of plans rely on. Raises InputError without the file's name."""
    num_devices = plan.machine.num_devices
    _check_lengths(plan, num_devices)
    _check_steps(plan, num_devices)
    names = {op.name for op in plan.ops}
    _require(len(names) == len(plan.ops), "two ops have one name")
    _check_reruns(plan, names)
    _check_moves(plan, names)
    _check_buffers(plan, num_devices, names)
    for transfer in plan.transfers:
        if transfer.producer not in names:
            name = shown(transfer.tensor)
            raise InputError(f"a transfer moves '{name}' of op '{shown(transfer.producer)}', which is not in the plan")
    for curve in (*plan.memory_curves, *([plan.input_order_memory] if plan.input_order_memory else [])):
        times = curve.time_ns
        _require(len(times) == len(curve.bytes_in_use) > 0, "a memory curve needs as many times as values")
        _require(all(a <= b for a, b in pairwise(times)), "a memory curve goes back in time")


def _check_lengths(plan: Plan, num_devices: int) -> None:
    """Check that lists per device have one entry per device."""
    lists: dict[str, Sequence[object]] = {
        "memory_limits_bytes": plan.memory_limits_bytes,
        "memory_curves": plan.memory_curves,
        "metrics.peak_bytes": plan.metrics.peak_bytes,
        "metrics.busy_ns": plan.metrics.busy_ns,
    }
    for baseline in plan.baselines:
        if baseline.metrics is not None:
            lists[f"baseline {baseline.name}: peak_bytes"] = baseline.metrics.peak_bytes
            lists[f"baseline {baseline.name}: busy_ns"] = baseline.metrics.busy_ns
    if plan.one_device is not None:
        lists["one_device: peak_bytes"] = plan.one_device.metrics.peak_bytes
        lists["one_device: busy_ns"] = plan.one_device.metrics.busy_ns
        device = plan.one_device.device
        _require(device < num_devices, f"one_device is device {device}; there are {num_devices}")
    for key, values in lists.items():
        _require(len(values) == num_devices, f"{key} has {len(values)} entries for {num_devices} devices")


def _check_reruns(plan: Plan, names: set[str]) -> None:
    """Check that each rerun, its op and the op before which it runs are ops of the plan."""
    again = [rerun.name for rerun in plan.reruns]
    _require(len(set(again)) == len(again), "two reruns have one name")
    for rerun in plan.reruns:
        for name in (rerun.name, rerun.op, rerun.before):
            if name not in names:
                raise InputError(f"the rerun '{shown(rerun.name)}' names '{shown(name)}', which is no op of the plan")
        if not set(again).isdisjoint((rerun.op, rerun.before)):
            raise InputError(f"the rerun '{shown(rerun.name)}' names another rerun where a first run belongs")


def _check_moves(plan: Plan, names: set[str]) -> None:
    """Check that each move is of another tensor, before ops of the plan, and that there is a host memory."""
    moved = [move.tensor for move in plan.moves]
    _require(len(set(moved)) == len(moved), "two moves are of one tensor")
    _require(not moved or plan.machine.devices[-1].is_host, "there are moves, and no memory of the host")
    for move in plan.moves:
        for name in move.runs:
            if name not in names:
                raise InputError(
                    f"the move of '{shown(move.tensor)}' names '{shown(name)}', which is no op of the plan"
                )


def _check_buffers(plan: Plan, num_devices: int, names: set[str]) -> None:
    """Check that each buffer is on a device, for a time, and belongs to an op; residents belong to none, and a transfer
    brings each copy."""
    brought = {(transfer.tensor, transfer.destination) for transfer in plan.transfers}
    for buffer in plan.buffers:
        label = f"buffer '{shown(buffer.name)}'"
        if buffer.device >= num_devices:
            raise InputError(f"{label} is on device {buffer.device}; there are {num_devices}")
        if buffer.allocated_ns > buffer.freed_ns:
            raise InputError(f"{label} is freed before it is allocated")
        if buffer.kind == "resident":
            if buffer.op:
                raise InputError(f"{label} is resident and yet belongs to op '{shown(buffer.op)}'")
        elif buffer.op not in names:
            raise InputError(f"{label} belongs to op '{shown(buffer.op)}', which is not in the plan")
        elif buffer.kind == "copy" and (buffer.name, buffer.device) not in brought:
            raise InputError(f"{label} is a copy that no transfer brings to device {buffer.device}")


def _check_steps(plan: Plan, num_devices: int) -> None:
    for op in plan.ops:
        if op.device >= num_devices:
            raise InputError(f"op '{shown(op.name)}' is on device {op.device}; there are {num_devices}")
    for transfer in plan.transfers:
        source, destination = transfer.source, transfer.destination
        if max(source, destination) >= num_devices or source == destination:
            raise InputError(
                f"a transfer of '{shown(transfer.tensor)}' goes from device {source} to {destination}; "
                f"there are {num_devices}"
            )
    every: list[ScheduledOp | Transfer] = [*plan.ops, *plan.transfers]
    for positions in ([op.position for op in plan.ops], [transfer.position for transfer in plan.transfers]):
        _require(all(a < b for a, b in pairwise(positions)), "steps are not sorted by position")
    _require({step.position for step in every} == set(range(len(every))), "the positions are not 0, 1, 2 and so on")
    for step in every:
        if step.start_ns > step.finish_ns:
            raise InputError(f"the step at position {step.position} finishes before it starts")
        if step.waits_for >= step.position:
            raise InputError(f"the step at position {step.position} waits for a later one")


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise InputError(otherwise)
