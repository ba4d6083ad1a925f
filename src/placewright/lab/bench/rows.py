"""Benchmark rows: one per graph, solver, limit and seed, in a file that survives being cut off anywhere."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from placewright.importers.json_graph import unpack
from placewright.support.errors import InputError, other_version, shown
from placewright.support.files import lock_folder, make_folder, read_bytes, write_atomically


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def processor() -> str:
    """Return the model of this machine's processor as Linux names it, elsewhere its architecture."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()


SCHEMA_VERSION = 2
ROWS_NAME, HEADER_NAME, DAMAGED_NAME, STALE_NAME = "rows.jsonl", "run.json", "rows.damaged", "rows.stale"

#: Graph, solver, evaluations limit, time limit and seed: together they identify a row.
Key = tuple[str, str, int | None, float | None, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One plan, as the harness measured it and the checker confirmed it.

    graph: label in the suite, with "~k" for the k-th noisy copy. num_ops: scheduled ops.
    evaluations_limit, time_limit_s: None where there was none. seed: 0 for methods that use none.
    objective: step time in ns or peak memory in bytes, as the suite asks. bound: proven, same unit.
    status, found_by, stopped_because: as in Plan. seconds: processor time of the method. code: of the method
    (code_version.py), or "unknown". trained: the training of the policy that guided it; "" for none.
    """

    graph: str
    num_ops: int
    solver: str
    evaluations_limit: int | None
    time_limit_s: float | None
    seed: int
    objective: int
    step_time_ns: int
    peak_memory_bytes: int
    bytes_over_limit: int
    bound: int
    evaluations: int
    seconds: float
    status: str
    found_by: str
    stopped_because: str
    version: str
    code: str
    trained: str

    @property
    def key(self) -> Key:
        return (self.graph, self.solver, self.evaluations_limit, self.time_limit_s, self.seed)


@dataclass(frozen=True, kw_only=True)
class Header:
    """The properties that all rows of a folder share.

    digest: of graphs, machine, objective, control and memory limit; these too, as in a problem. copies: noisy copies
    per graph. paper: the column of the paper's table 1 that these rows are compared with, "" for none.
    started, processor: of the first run into this folder, for the reader's information only.
    """

    suite: str
    digest: str
    num_graphs: int
    copies: int
    machine: str
    objective: str
    control: str
    paper: str
    started: str
    processor: str

    def identity(self) -> dict[str, Any]:
        """Return the fields that a run must share to add to the same rows."""
        own = asdict(self)
        return {name: value for name, value in own.items() if name not in ("started", "processor", "paper")}


_Record = TypeVar("_Record", Row, Header)


@dataclass(frozen=True, kw_only=True)
class _Content:
    """The content of a file of rows. damaged: lines that are not rows, by line number."""

    path: Path
    rows: list[Row] = field(default_factory=list)
    damaged: dict[int, bytes] = field(default_factory=dict)
    is_cut_off: bool = False

    @property
    def complaints(self) -> list[str]:
        return [
            f"'{shown(self.path)}', line {number} is damaged: {shown(repr(line[:40]))}"
            for number, line in self.damaged.items()
        ]


class Results:
    """The rows of one folder, open for appending and locked against a second run until they are closed.

    complaints: a sentence per damaged line that was found and set aside; its row will be made again.
    Raises InputError when the folder cannot be used, is in use or holds other rows.
    """

    def __init__(self, folder: Path, header: Header) -> None:
        make_folder(folder)
        self._path = folder / ROWS_NAME
        self._lock = lock_folder(folder, "another run is adding rows to")
        try:
            _claim(folder, header)
            content = _mended(folder)
            self.complaints = content.complaints
            self.rows = {row.key: row for row in content.rows}
            self._file = self._path.open("ab")
        except BaseException as error:
            os.close(self._lock)
            if isinstance(error, OSError):
                raise InputError(f"cannot write '{shown(self._path)}': {error.strerror}") from error
            raise

    def add(self, row: Row) -> None:
        """Write the row to disk. Raises InputError when the disk takes no more; rows added before are kept."""
        if not self._path.exists():
            raise InputError(f"'{shown(self._path)}' was removed while rows were added to it")
        end = self._file.tell()
        try:
            self._file.write(_line(row))
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            self._take_back(end)
            kept = f"{len(self.rows):,} rows are kept; the same command goes on from there"
            raise InputError(f"cannot write '{shown(self._path)}': {error.strerror}; {kept}") from error
        self.rows[row.key] = row

    def set_aside(self, keys: Collection[Key]) -> None:
        """Move the rows with these keys to rows.stale, so that they can be made again."""
        stale = [self.rows.pop(key) for key in keys]
        if stale:
            _append(self._path.with_name(STALE_NAME), b"".join(map(_line, stale)))
            self._file.close()
            write_atomically(self._path, b"".join(map(_line, self.rows.values())))
            self._file = self._path.open("ab")

    def close(self) -> None:
        self._file.close()
        os.close(self._lock)

    def _take_back(self, end: int) -> None:
        """Remove what a failed write left after the last whole row. The buffer is given up with the file."""
        descriptor = os.dup(self._file.fileno())
        with suppress(OSError):  # Closing writes the rest of the buffer, which fails for the reason being reported.
            self._file.close()
        os.ftruncate(descriptor, end)
        os.close(descriptor)


def read_results(folder: str | Path) -> tuple[Header, list[Row], list[str]]:
    """Return header, rows and a sentence per damaged line of a folder, whose rows may be gzipped (`rows.jsonl.gz`).

    Raises InputError when the folder holds no results.
    """
    folder = Path(folder)
    header = _read_header(folder / HEADER_NAME)
    content = _read_rows(_rows_path(folder))
    return header, content.rows, content.complaints


def _rows_path(folder: Path) -> Path:
    """Return the path of the rows: the gzipped file where there is no plain one."""
    plain, packed = folder / ROWS_NAME, folder / f"{ROWS_NAME}.gz"
    return packed if packed.exists() and not plain.exists() else plain


def _claim(folder: Path, header: Header) -> None:
    """Write the header, or check that the existing one is of the same work."""
    path = folder / HEADER_NAME
    if not path.exists():
        if (rows := _rows_path(folder)).exists():
            raise InputError(f"'{shown(folder)}' holds {rows.name} without {HEADER_NAME}, so nobody knows of what")
        write_atomically(path, json.dumps({"schema_version": SCHEMA_VERSION, **asdict(header)}, indent=1).encode())
        return
    kept = _read_header(path)
    present, wanted = kept.identity(), header.identity()
    for name, value in wanted.items():
        if present[name] != value:
            raise InputError(
                f"'{shown(folder)}' holds results with another {name} ({shown(present[name])}, not {shown(value)});"
                " choose another folder"
            )


def _read_header(path: Path) -> Header:
    try:
        document = json.loads(read_bytes(path))
        version = document.pop("schema_version")
        header = _record(Header, document) if version == SCHEMA_VERSION else None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise InputError(f"'{shown(path)}' is not the header of benchmark results") from error
    if header is None:
        raise InputError(f"'{shown(path)}' {other_version(version, SCHEMA_VERSION, 'placewright bench run')}")
    return header


def _read_rows(path: Path) -> _Content:
    """Read rows in the file's order; of rows with equal keys, keep the first."""
    data = unpack(read_bytes(path), shown(path))
    rows: dict[Key, Row] = {}
    damaged: dict[int, bytes] = {}
    for number, line in enumerate(data.split(b"\n"), start=1):
        if not line:
            continue
        try:
            row = _row(line)
        except (ValueError, TypeError, RecursionError):
            damaged[number] = line
        else:
            rows.setdefault(row.key, row)
    is_cut_off = bool(data) and not data.endswith(b"\n")
    return _Content(path=path, rows=list(rows.values()), damaged=damaged, is_cut_off=is_cut_off)


def _row(line: bytes) -> Row:
    """Parse a line. Raises ValueError or TypeError for one that no run can have written."""
    row = _record(Row, json.loads(line))
    row.solver.encode()  # No half of a surrogate pair, which cannot be encoded.
    return row


def _record(kind: type[_Record], document: object) -> _Record:
    """Make the dataclass from a JSON object with exactly its fields. Raises ValueError otherwise."""
    if not isinstance(document, Mapping) or set(document) != {one.name for one in fields(kind)}:
        raise ValueError("other keys than expected")
    for one in fields(kind):
        if not _fits(document[one.name], str(one.type)):
            raise ValueError(f"{one.name} is no {one.type}")
    return kind(**dict(document))


def _fits(value: object, kind: str) -> bool:
    """True if a JSON value has a type of an annotation like "int | None"; numbers must be at least 0 and below
    2**63."""
    accepted = {"str": str, "int": int, "float": int | float, "None": type(None)}
    if isinstance(value, int | float) and not 0 <= value < 2**63:
        return False
    return not isinstance(value, bool) and any(isinstance(value, accepted[name]) for name in kind.split(" | "))


def _mended(folder: Path) -> _Content:
    """Read the folder, after repairing its file of rows: only whole rows, not gzipped, so that more can be appended."""
    path = _rows_path(folder)
    content = _read_rows(path) if path.exists() else _Content(path=path)
    if content.damaged:
        _append(folder / DAMAGED_NAME, b"".join(line + b"\n" for line in content.damaged.values()))
    if content.damaged or content.is_cut_off or path.name != ROWS_NAME:
        write_atomically(folder / ROWS_NAME, b"".join(_line(row) for row in content.rows))
    return content


def _append(path: Path, lines: bytes) -> None:
    """Append the lines to those that were set aside earlier."""
    before = read_bytes(path) if path.exists() else b""
    write_atomically(path, before + lines)


def _line(row: Row) -> bytes:
    return json.dumps(asdict(row), separators=(",", ":")).encode("ascii") + b"\n"
