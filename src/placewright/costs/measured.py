"""Measured op times from a CSV file, which override whatever the cost model says, and measured workspaces."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import translate
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from placewright.graph import Graph
from placewright.machine import Machine
from placewright.support.errors import InputError, shown
from placewright.support.files import read_text, write_atomically
from placewright.support.quantities import QUANTITY_LIMIT
from placewright.support.spreadsheet import guarded, unguarded

_NS_PER_UNIT = {"time_ns": 1, "time_us": 1000}
_WORKSPACE = "workspace_bytes"
_GLOB = re.compile(r"[*?\[]")


@dataclass(frozen=True, slots=True)
class MeasuredOp:
    """The measurements of an op on one kind of device. workspace_bytes: memory that it needs besides its inputs and
    outputs while it runs."""

    time_ns: int
    workspace_bytes: int


@dataclass(frozen=True, kw_only=True)
class _Row:
    """One line: its ops and devices as written, the time, and the workspace where it states one. where: "file:line"."""

    where: str
    op: str
    device: str
    time_ns: int
    workspace_bytes: int | None


def apply_measured(path: Path, graph: Graph, machine: Machine, time_ns: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Write the file's times into time_ns, int64 [num_ops, num_devices]; return a mask of the changes in that shape.

    Columns: op (a name, or a pattern with * ? [] ), device (a name, a kind, or *), time_ns or time_us, and
    workspace_bytes where it is known. Rows apply in order, so the last one that matches wins. Raises InputError naming
    file and line.
    """
    index_of = _indices(graph)
    touched = np.zeros(time_ns.shape, np.bool_)
    for row in _read_rows(path):
        place = np.ix_(_matching_ops(row, index_of), _matching_devices(row, machine))
        time_ns[place] = row.time_ns
        touched[place] = True
    return touched


def with_workspaces(graph: Graph, path: Path | None) -> Graph:
    """Return the graph with the workspaces that the file states: for an op that several rows name, the largest. The
    graph itself where the file states none. Raises InputError as `apply_measured` does."""
    index_of = _indices(graph)
    stated: dict[int, int] = {}
    for row in _read_rows(path) if path is not None else ():
        if row.workspace_bytes is not None:
            for op in _matching_ops(row, index_of):
                stated[op] = max(stated.get(op, 0), row.workspace_bytes)
    if not stated:
        return graph
    ops = (replace(op, workspace_bytes=stated.get(index, op.workspace_bytes)) for index, op in enumerate(graph.ops))
    return replace(graph, ops=tuple(ops))


def write_measured(path: Path, measured: Mapping[str, MeasuredOp], device: str) -> None:
    """Write such a file. measured: by name of the op. device: a name, a kind, or *."""
    write_measured_by_device(path, {device: measured})


def write_measured_by_device(path: Path, measured: Mapping[str, Mapping[str, MeasuredOp]]) -> None:
    """Write such a file for devices of several kinds. measured: by name or kind of the device, by name of the op."""
    lines = io.StringIO()
    # The CSV writer does not quote a lone carriage return, and the reader takes it for the end of a line.
    is_odd = any("\r" in name for ops in measured.values() for name in ops)
    writer = csv.writer(lines, lineterminator="\n", quoting=csv.QUOTE_ALL if is_odd else csv.QUOTE_MINIMAL)
    writer.writerow(["op", "device", "time_ns", _WORKSPACE])
    for device, ops in measured.items():
        writer.writerows([guarded(name), guarded(device), op.time_ns, op.workspace_bytes] for name, op in ops.items())
    write_atomically(path, lines.getvalue().encode())


def _indices(graph: Graph) -> dict[str, int]:
    return {op.name: index for index, op in enumerate(graph.ops)}


def _read_rows(path: Path) -> Iterator[_Row]:
    lines = _read_cells(path)
    header = [cell.strip() for cell in next(lines, ("", []))[1]]
    unit = _time_column(header, path)
    for where, cells in lines:
        if not any(cell.strip() for cell in cells):
            continue
        if len(cells) != len(header):
            raise InputError(f"{where}: {len(cells)} values for {len(header)} columns")
        row = dict(zip(header, (cell.strip() for cell in cells), strict=True))
        # An op's name may begin with a space.
        op, device = unguarded(cells[header.index("op")]), unguarded(row["device"])
        workspace = _workspace_bytes(row.get(_WORKSPACE, ""), where)
        time_ns = _time_ns(row[unit], unit, where)
        yield _Row(where=where, op=op, device=device, time_ns=time_ns, workspace_bytes=workspace)


def _read_cells(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield each line as "file:line" and its values."""
    reader = csv.reader(io.StringIO(read_text(path), newline=""))
    try:
        for cells in reader:
            yield f"{path}:{reader.line_num}", cells
    except csv.Error as error:
        raise InputError(f"{path}:{reader.line_num}: {error}") from error


def _time_column(header: Sequence[str], path: Path) -> str:
    units = [column for column in header if column in _NS_PER_UNIT]
    required = [column for column in header if column != _WORKSPACE]
    if sorted(required) != sorted(["op", "device", *units]) or len(units) != 1 or len(set(header)) != len(header):
        raise InputError(f"{path}:1: columns must be op, device, and time_ns or time_us, with or without {_WORKSPACE}")
    return units[0]


def _time_ns(text: str, unit: str, where: str) -> int:
    try:
        value = float(text) * _NS_PER_UNIT[unit]
    except ValueError:
        raise InputError(f"{where}: {unit} is '{shown(text)}', which is not a number") from None
    if not (math.isfinite(value) and 0 <= value < QUANTITY_LIMIT):
        raise InputError(f"{where}: {unit} is {shown(text)}, which is not a possible time")
    return round(value)


def _workspace_bytes(text: str, where: str) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) < 20 and int(text) < QUANTITY_LIMIT):
        raise InputError(f"{where}: {_WORKSPACE} is '{shown(text)}', which is not a possible number of bytes")
    return int(text)


def _matching_ops(row: _Row, index_of: dict[str, int]) -> list[int]:
    name = row.op.strip()
    for written in (row.op, name):
        if written in index_of:
            return [index_of[written]]
    if _GLOB.search(name):
        matches = re.compile(translate(name)).match
        if ops := [index for name, index in index_of.items() if matches(name)]:
            return ops
    raise InputError(f"{row.where}: no op matches '{shown(name)}'")


def _matching_devices(row: _Row, machine: Machine) -> list[int]:
    devices = [index for index, device in enumerate(machine.devices) if row.device in ("*", device.name, device.kind)]
    if not devices:
        known = ", ".join(f"{device.name} ({device.kind})" for device in machine.devices)
        raise InputError(f"{row.where}: no device is named or of kind '{shown(row.device)}'; there are {known}")
    return devices
