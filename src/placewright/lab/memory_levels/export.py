"""Memory maps for other tools: a row per tensor for spreadsheets and compilers."""

from __future__ import annotations

from placewright.lab.memory_levels.record import MemoryMap
from placewright.support.spreadsheet import csv_bytes

COLUMNS = (
    "level",
    "tensor",
    "role",
    "module",
    "size_bytes",
    "first_position",
    "last_position",
    "first_op",
    "last_op",
    "compiler_level",
)


def csv_of(found: MemoryMap) -> bytes:
    """Return CSV with the columns of COLUMNS, in the order of the map's tensors. Positions count the ops in execution
    order, from 0; a weight is held from the first op to the last."""
    levels, ops = found.chip.level_names, found.ops
    rows = [
        (
            levels[tensor.level],
            tensor.name,
            "weight" if tensor.is_weight else "activation",
            ops[tensor.op].module,
            tensor.size_bytes,
            tensor.first,
            tensor.last,
            ops[tensor.first].name,
            ops[tensor.last].name,
            levels[tensor.compiler_level],
        )
        for tensor in found.tensors
    ]
    return csv_bytes(COLUMNS, rows)
