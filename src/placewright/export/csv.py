"""One row per step, op or transfer, in the plan's order, for spreadsheets and data frames."""

from __future__ import annotations

from collections.abc import Sequence

from placewright.plans.record import Plan, ScheduledOp, Transfer
from placewright.support.spreadsheet import csv_bytes

COLUMNS = (
    "position",
    "step",
    "name",
    "kind",
    "module",
    "phase",
    "source_line",
    "device",
    "destination",
    "start_ns",
    "finish_ns",
    "duration_ns",
    "waits_for",
    "size_bytes",
)


def to_bytes(plan: Plan) -> bytes:
    """Write CSV with the columns of COLUMNS; for a transfer, name is the tensor and module the producer's. Text that
    spreadsheets would take for a formula is prefixed with an apostrophe."""
    return csv_bytes(COLUMNS, rows_of(plan))


def rows_of(plan: Plan) -> list[tuple[int | str, ...]]:
    """List the values of COLUMNS for each step of the plan, in its order."""
    names = [device.name for device in plan.machine.devices]
    module_of = {op.name: op.module for op in plan.ops}
    rows: list[tuple[int | str, ...]] = [_op_row(op, names) for op in plan.ops]
    rows += [_transfer_row(transfer, names, module_of.get(transfer.producer, "")) for transfer in plan.transfers]
    return sorted(rows, key=lambda row: row[0])


def _op_row(op: ScheduledOp, names: Sequence[str]) -> tuple[int | str, ...]:
    described = (op.name, op.kind, op.module, op.phase, op.source, names[op.device], "")
    return (op.position, "op", *described, *_times(op), op.waits_for, op.output_bytes)


def _transfer_row(transfer: Transfer, names: Sequence[str], module: str) -> tuple[int | str, ...]:
    described = (transfer.tensor, "transfer", module, "", "", names[transfer.source], names[transfer.destination])
    return (transfer.position, "transfer", *described, *_times(transfer), transfer.waits_for, transfer.size_bytes)


def _times(step: ScheduledOp | Transfer) -> tuple[int, int, int]:
    return step.start_ns, step.finish_ns, step.finish_ns - step.start_ns
