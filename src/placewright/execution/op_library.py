"""Measured op times for use across models: an op of the same sort on the same host takes as long in any model."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from placewright.costs.measured import MeasuredOp
from placewright.support.errors import InputError, shown
from placewright.support.files import read_text, write_atomically
from placewright.support.quantities import QUANTITY_LIMIT
from placewright.support.spreadsheet import guarded, unguarded

_COLUMNS = ("op", "arguments", "device", "devices_busy", "host", "time_ns", "workspace_bytes")


@dataclass(frozen=True, slots=True)
class OpSort:
    """The properties that determine how long an op takes.

    Attributes
    ----------
    op
        The function called: "aten.convolution.default".
    arguments
        Shapes, dtypes and strides of its tensors, and its other arguments.
    device
        The kind of device, which includes its number of cores.
    devices_busy
        How many devices of the host compute at the time.
    host
        Processor and version of the library that computes.
    """

    op: str
    arguments: str
    device: str
    devices_busy: int
    host: str


#: The sort of the gap between two ops on a device, per op.
BETWEEN_OPS = "(between ops)"


def read_library(path: Path) -> dict[OpSort, MeasuredOp]:
    """The library of a file; empty where there is none. Raises InputError naming file and line."""
    if not path.exists():
        return {}
    # The limit holds for the whole process; arguments of an op with many tensors exceed it.
    before = csv.field_size_limit(2**24)
    try:
        return dict(_rows(path))
    finally:
        csv.field_size_limit(before)


def write_library(path: Path, library: Mapping[OpSort, MeasuredOp]) -> None:
    """Writes the library, sorted, so that equal libraries are equal files."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for sort in sorted(library, key=lambda sort: (sort.host, sort.device, sort.op, sort.arguments, sort.devices_busy)):
        known = library[sort]
        named = (guarded(sort.op), guarded(sort.arguments), sort.device, sort.devices_busy, guarded(sort.host))
        writer.writerow((*named, known.time_ns, known.workspace_bytes))
    write_atomically(path, text.getvalue().encode())


def _rows(path: Path) -> Iterator[tuple[OpSort, MeasuredOp]]:
    reader = csv.reader(read_text(path).splitlines())
    try:
        header = next(reader, [])
        if tuple(header) != _COLUMNS:
            raise InputError(f"{path}:1: columns must be {', '.join(_COLUMNS)}")
        for cells in reader:
            where = f"{path}:{reader.line_num}"
            if len(cells) != len(_COLUMNS):
                raise InputError(f"{where}: {len(cells)} values for {len(_COLUMNS)} columns")
            op, arguments, device, busy, host, time_ns, workspace = cells
            numbers = [_whole(text, column, where) for text, column in
                       ((busy, "devices_busy"), (time_ns, "time_ns"), (workspace, "workspace_bytes"))]  # fmt: skip
            sort = OpSort(unguarded(op), unguarded(arguments), device, numbers[0], unguarded(host))
            yield sort, MeasuredOp(numbers[1], numbers[2])
    except csv.Error as error:
        raise InputError(f"{path}:{reader.line_num}: {error}") from error


def _whole(text: str, column: str, where: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 20 and int(text) < QUANTITY_LIMIT):
        raise InputError(f"{where}: {column} is '{shown(text)}', which is not a possible whole number")
    return int(text)
