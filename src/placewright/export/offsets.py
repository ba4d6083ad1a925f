"""Offsets of all buffers, for authors of runtimes: JSON, or a table for a path in .csv."""

from __future__ import annotations

import json
from pathlib import Path

from placewright.plans.offsets import PlacedBuffer, lay_out
from placewright.plans.record import Plan
from placewright.support.spreadsheet import csv_bytes

COLUMNS = (
    *("device", "name", "kind", "op"),
    *("begin", "end", "size_bytes"),
    *("offset", "allocated_ns", "freed_ns"),
)


def to_bytes(plan: Plan, path: Path, alignment: int) -> bytes:
    """Return the content of the file `path`."""
    arenas = lay_out(plan, alignment)
    names = [device.name for device in plan.machine.devices]
    if path.name.removesuffix(".gz").endswith(".csv"):
        rows = ((names[arena.device], *_values(placed)) for arena in arenas for placed in arena.buffers)
        return csv_bytes(COLUMNS, rows)
    document = {
        "format": "placewright-offsets",
        "schema_version": 1,
        "graph": plan.graph_name,
        "alignment": alignment,
        "devices": [
            {
                "device": names[arena.device],
                "arena_bytes": arena.size_bytes,
                "bound_bytes": arena.bound_bytes,
                "peak_bytes": plan.peak_bytes[arena.device],
                "buffers": [dict(zip(COLUMNS[1:], _values(placed), strict=True)) for placed in arena.buffers],
            }
            for arena in arenas
        ],
    }
    return json.dumps(document, indent=1).encode()


def _values(placed: PlacedBuffer) -> tuple[int | str, ...]:
    buffer = placed.buffer
    events = placed.begin, placed.end
    return (buffer.name, buffer.kind, buffer.op, *events, buffer.size_bytes, placed.offset,
            buffer.allocated_ns, buffer.freed_ns)  # fmt: skip
