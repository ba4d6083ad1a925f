"""Results of one suite, gathered from the folders that hold them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from placewright.lab.bench.measure import Measure, measure_of
from placewright.lab.bench.paper import check_column
from placewright.lab.bench.rows import Header, Key, Row, read_results
from placewright.support.errors import InputError, shown
from placewright.support.fields import placing


@dataclass(frozen=True, kw_only=True)
class ResultSet:
    """All rows of one suite. header: of the first folder. name: the suite's, unlike any other result set's.

    started, processors: of each folder, once each.
    """

    name: str
    header: Header
    rows: tuple[Row, ...]
    started: tuple[str, ...]
    processors: tuple[str, ...]

    @property
    def measure(self) -> Measure:
        return measure_of(self.header.objective)

    @property
    def seeds(self) -> list[int]:
        return sorted({row.seed for row in self.rows})

    @property
    def versions(self) -> list[str]:
        return sorted({row.version for row in self.rows})

    def topology_of(self, graph: str) -> str:
        """Return the graph that a noisy copy "name~1" was made from; the graph itself where it is not a copy."""
        name, mark, number = graph.rpartition("~")
        return name if mark and number.isdecimal() and self.header.copies else graph

    def is_copy(self, graph: str) -> bool:
        return self.topology_of(graph) != graph


def read_result_sets(folders: Sequence[Path]) -> tuple[list[ResultSet], list[str]]:
    """Return a result set per suite, in the order of the folders, and a sentence per thing that was left out.

    Folders of the same suite are taken together. Raises InputError for a folder without results or without rows.
    """
    groups: list[list[tuple[Header, list[Row]]]] = []
    complaints: list[str] = []
    for folder in folders:
        header, rows, damaged = read_results(folder)
        complaints += damaged
        if not rows:
            raise InputError(damaged[0] if damaged else f"'{shown(folder)}' holds no results yet")
        with placing(f"'{shown(folder)}'"):
            check_column(header.paper)
            measure_of(header.objective)
        own = next((group for group in groups if group[0][0].identity() == header.identity()), None)
        if own is None:
            groups.append([(header, rows)])
        else:
            own.append((header, rows))
    names = _distinct([group[0][0].suite for group in groups])
    return [_study(name, group, complaints) for name, group in zip(names, groups, strict=True)], complaints


def _study(name: str, group: Sequence[tuple[Header, list[Row]]], complaints: list[str]) -> ResultSet:
    rows: dict[Key, Row] = {}
    repeated = 0
    for _, more in group:
        repeated += sum(row.key in rows for row in more)
        rows = {row.key: row for row in more} | rows
    if repeated:
        complaints.append(f"{name}: rows that stand in several folders are taken from the first: {repeated:,}")
    return ResultSet(
        name=name,
        header=group[0][0],
        rows=tuple(rows[key] for key in sorted(rows, key=_sequence)),
        started=tuple(dict.fromkeys(header.started for header, _ in group)),
        processors=tuple(dict.fromkeys(header.processor for header, _ in group)),
    )


def _sequence(key: Key) -> tuple[str, str, int, float, int]:
    """Sort key that does not depend on the workers' order, so that sums are the same to the last bit."""
    graph, solver, evaluations, seconds, seed = key
    return graph, solver, -1 if evaluations is None else evaluations, -1.0 if seconds is None else seconds, seed


def _distinct(names: Sequence[str]) -> list[str]:
    """Return the names, repeated ones with a number appended; only characters that any file system accepts."""
    plain = ["".join(c if c.isalnum() or c in "-_" else "-" for c in name)[:100] or "suite" for name in names]
    return [
        name if name not in plain[:index] else f"{name}-{plain[:index].count(name) + 1}"
        for index, name in enumerate(plain)
    ]
