"""Tables as Markdown for readers and CSV for programs."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from io import StringIO
from typing import Any

from placewright.lab.bench.columns import AnyTable, Column
from placewright.lab.bench.result_set import ResultSet
from placewright.lab.statistics import Mean
from placewright.support.quantities import counted
from placewright.support.spreadsheet import guarded

MEANS = (
    "Means are taken over the seeds of a graph first, then over graphs. ±: half the width of the 95% confidence"
    " interval by graph (Student's t); a graph and its noisy copies are one cluster there, one of n."
)


def facts(results: ResultSet) -> list[tuple[str, str]]:
    """Return what was measured and how, as pairs of heading and text: suite, machine, objective, seeds, dates and
    versions."""
    header, seeds = results.header, results.seeds
    listed = str(seeds[0]) if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
    copies = f" and {counted(header.copies, 'noisy copy', 'noisy copies')} of each" if header.copies else ""
    told = [
        ("Suite", f"{header.suite} (digest {header.digest})"),
        ("Machine", header.machine),
        ("Objective", header.objective),
        ("Control dependencies", header.control),
        ("Instances", f"{counted(header.num_graphs, 'graph')}{copies}"),
        ("Seeds", f"{len(seeds)} ({listed})"),
        ("Date", ", ".join(results.started)),
        ("Processor", ", ".join(results.processors)),
        ("Version", ", ".join(results.versions)),
    ]
    return [(name, text) for name, text in told if text]


def markdown(results: ResultSet, tables: Sequence[AnyTable]) -> str:
    """Return a page with the facts of the results, each table, and the meaning of its columns."""
    parts = [
        f"# {_plain(results.name)}",
        "\n".join(f"- {name}: {_plain(text)}" for name, text in facts(results)),
        MEANS,
    ]
    for table in tables:
        parts += [f"## {table.title}", _grid(table), *table.notes, _definitions(table.columns)]
    return "\n\n".join(parts) + "\n"


def _grid(table: AnyTable) -> str:
    lines = [[column.heading for column in table.columns]]
    lines.append(["---" if index == 0 else "---:" for index in range(len(table.columns))])
    lines += [[_plain(column.text(line)) for column in table.columns] for line in table.rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _definitions(columns: Sequence[Column[Any]]) -> str:
    headings: dict[str, dict[str, None]] = {}  # by what they mean, each once
    for column in columns:
        headings.setdefault(column.meaning, {})[column.heading] = None
    return "\n".join(f"- {', '.join(f'*{own}*' for own in same)}: {meaning}." for meaning, same in headings.items())


def _plain(text: str) -> str:
    """Make text from files safe to write within one line and one table cell."""
    return "".join(c if c.isprintable() else " " for c in text).replace("|", "\\|").replace("<", "&lt;")


def csv_text(tables: Sequence[AnyTable]) -> str:
    """Return one kind of table of all result sets as CSV; a mean takes three columns: its value, half-width and number
    of graphs."""
    columns = {column.name: column for table in tables for column in table.columns}
    values = ((column.name, column.value(line)) for table in tables for column in table.columns for line in table.rows)
    with_means = {name for name, value in values if isinstance(value, Mean)}
    header = ["suite", "objective"]
    for name in columns:
        header += [name, f"{name}_ci95", f"{name}_graphs"] if name in with_means else [name]
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    for table in tables:
        own = {column.name: column for column in table.columns}
        for line in table.rows:
            cells = [guarded(table.results.name), table.results.header.objective]
            for name in columns:
                cells += _cells(own.get(name), line, name in with_means)
            writer.writerow(cells)
    return text.getvalue()


def _cells(column: Column[Any] | None, line: object, as_mean: bool) -> list[str]:
    value = None if column is None else column.value(line)
    if isinstance(value, Mean):
        return [_exact(value.value), _exact(value.half_width), str(value.num_graphs)]
    return [_exact(value), "", ""] if as_mean else [_exact(value)]


def _exact(value: str | int | float | None) -> str:
    """Write six significant digits, more than any of these figures has, and never "-0"."""
    if value is None or isinstance(value, int):
        return "" if value is None else str(value)
    if isinstance(value, str):
        return guarded(value)
    return f"{value + 0.0:.6g}"
