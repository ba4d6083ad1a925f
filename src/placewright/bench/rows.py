"""What a benchmark keeps: one row per graph, solver, limit and seed, in a file that survives being cut off anywhere."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

from placewright.errors import InputError, shown
from placewright.files import make_folder, read_bytes, write_atomically
from placewright.importers.json_graph import unpack

SCHEMA_VERSION = 1
ROWS_NAME, HEADER_NAME = "rows.jsonl", "run.json"

#: Graph, solver, evaluations limit, time limit and seed: what makes a row the only one of its kind.
Key = tuple[str, str, int | None, float | None, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One plan, as the harness measured it and the checker confirmed it.

    graph: label in the suite, with "~k" for the k-th noisy copy. num_ops: scheduled ones.
    evaluations_limit, time_limit_s: None where there was none. seed: 0 for methods that use none.
    objective: step time in ns or peak memory in bytes, as the suite asks. bound: proven, same unit.
    status, found_by, stopped_because: as in Plan. seconds: of processor time that the method took.
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

    @property
    def key(self) -> Key:
        return (self.graph, self.solver, self.evaluations_limit, self.time_limit_s, self.seed)


@dataclass(frozen=True, kw_only=True)
class Header:
    """What all rows of a folder share.

    digest: of the graphs' names and costs. objective, control, machine: as in a problem. copies: noisy copies per
    graph. paper: the column of the paper's table 1 that these rows stand beside, "" for none.
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
        """What a run must share to add to the same rows."""
        own = asdict(self)
        return {name: value for name, value in own.items() if name not in ("started", "processor", "paper")}


_Record = TypeVar("_Record", Row, Header)


class Results:
    """The rows of one folder, open for more. Raises InputError when the folder cannot be used or holds other rows.

    complaints: a sentence per damaged line that was found and set aside; its row will be made again.
    """

    def __init__(self, folder: Path, header: Header) -> None:
        make_folder(folder)
        self._path = folder / ROWS_NAME
        _claim(folder, header)
        rows, self.complaints = _read_rows(self._path) if self._path.exists() else ([], [])
        if self.complaints or _is_cut_off(self._path):
            _rewrite(self._path, rows)
        self.rows = {row.key: row for row in rows}
        try:
            self._file = self._path.open("ab")
        except OSError as error:
            raise InputError(f"cannot write '{shown(self._path)}': {error.strerror}") from error

    def add(self, row: Row) -> None:
        """Keeps the row on disk. Raises InputError when the disk takes no more; rows added before are kept."""
        end = self._file.tell()
        try:
            self._file.write(json.dumps(asdict(row), separators=(",", ":")).encode("ascii") + b"\n")
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            self._take_back(end)
            kept = f"{len(self.rows):,} rows are kept; the same command goes on from there"
            raise InputError(f"cannot write '{shown(self._path)}': {error.strerror}; {kept}") from error
        self.rows[row.key] = row

    def close(self) -> None:
        self._file.close()

    def _take_back(self, end: int) -> None:
        """Removes what a failed write left behind the last whole row. The buffer is given up with the file."""
        descriptor = os.dup(self._file.fileno())
        with suppress(OSError):  # Closing writes the rest of the buffer, which fails for the reason being reported.
            self._file.close()
        os.ftruncate(descriptor, end)
        os.close(descriptor)


def read_results(folder: str | Path) -> tuple[Header, list[Row], list[str]]:
    """Header, rows and a sentence per damaged line of a folder, whose rows may be gzipped (`rows.jsonl.gz`).

    Raises InputError when the folder holds no results.
    """
    folder = Path(folder)
    header = _read_header(folder / HEADER_NAME)
    plain = folder / ROWS_NAME
    rows, complaints = _read_rows(plain if plain.exists() else folder / f"{ROWS_NAME}.gz")
    return header, rows, complaints


def _claim(folder: Path, header: Header) -> None:
    """Writes the header, or makes sure that the one there is of the same work."""
    path = folder / HEADER_NAME
    if not path.exists():
        if (folder / ROWS_NAME).exists():
            raise InputError(f"'{shown(folder)}' holds {ROWS_NAME} without {HEADER_NAME}, so nobody knows of what")
        write_atomically(path, json.dumps({"schema_version": SCHEMA_VERSION, **asdict(header)}, indent=1).encode())
        return
    present, wanted = _read_header(path).identity(), header.identity()
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
        header = _record(Header, document)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise InputError(f"'{shown(path)}' is no header of benchmark results") from error
    if version != SCHEMA_VERSION:
        raise InputError(f"'{shown(path)}' has schema_version {shown(version)}; this placewright reads version 1")
    return header


def _read_rows(path: Path) -> tuple[list[Row], list[str]]:
    """Rows in the file's order, of equal keys the first, and a sentence per line that is none."""
    rows: dict[Key, Row] = {}
    complaints = []
    for number, line in enumerate(unpack(read_bytes(path), str(path)).split(b"\n"), start=1):
        if not line:
            continue
        try:
            row = _record(Row, json.loads(line))
        except (ValueError, TypeError, RecursionError):
            complaints.append(f"'{shown(path)}', line {number} is damaged: {shown(repr(line[:40]))}")
        else:
            rows.setdefault(row.key, row)
    return list(rows.values()), complaints


def _record(kind: type[_Record], document: object) -> _Record:
    """The dataclass from a JSON object with exactly its fields. Raises ValueError otherwise."""
    if not isinstance(document, Mapping) or set(document) != {field.name for field in fields(kind)}:
        raise ValueError("other keys than expected")
    for field in fields(kind):
        if not _fits(document[field.name], str(field.type)):
            raise ValueError(f"{field.name} is no {field.type}")
    return kind(**dict(document))


def _fits(value: object, kind: str) -> bool:
    """Whether a JSON value is of one of the kinds in an annotation like "int | None"."""
    accepted = {"str": str, "int": int, "float": int | float, "None": type(None)}
    return not isinstance(value, bool) and any(isinstance(value, accepted[name]) for name in kind.split(" | "))


def _is_cut_off(path: Path) -> bool:
    """Whether the last row lacks its newline, so that the next would be joined to it."""
    return path.exists() and not read_bytes(path).endswith(b"\n")


def _rewrite(path: Path, rows: Iterable[Row]) -> None:
    """Keeps the file as it was beside itself, and only its good rows in its place."""
    write_atomically(path.with_suffix(".damaged"), read_bytes(path))
    lines = [json.dumps(asdict(row), separators=(",", ":")).encode("ascii") + b"\n" for row in rows]
    write_atomically(path, b"".join(lines))
