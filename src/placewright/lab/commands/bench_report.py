"""`bench report`: the paper's tables and figures from results that `bench run` kept."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from placewright.cli.options import Json
from placewright.cli.printing import print_json, print_parts
from placewright.support.errors import InputError, shown

if TYPE_CHECKING:
    from rich.console import RenderableType

    from placewright.lab.bench.columns import AnyTable, Column
    from placewright.lab.bench.report import Section

#: Names of solvers are shortened to this width at least before columns are left out.
_LABEL_WIDTH = 20


def report(
    results: Annotated[
        list[Path], typer.Argument(metavar="RESULTS", help="Folders that `bench run` wrote.", show_default=False)
    ],
    table: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="1 (quality), 3 (seconds), heuristics (gain over the best of them), limits (each solver by limit) or"
            " graphs (each graph on its own); repeatable.",
        ),
    ] = None,
    figure: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="2 (histogram of improvements), 3 (by evaluations) or 12 (by topology); repeatable."
            " Without --table and --figure: everything.",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where files go; by default report in the first folder.")
    ] = None,
    as_json: Json = False,
) -> int:
    """Tables and figures from benchmark results, those of the REGAL paper among them."""
    from placewright.lab.bench.facts import result_facts
    from placewright.lab.bench.report import FIGURES, TABLES, read_report, write_figures, write_tables

    tables = _chosen("table", table or (), TABLES)
    figures = _chosen("figure", figure or (), FIGURES)
    if not tables and not figures:
        tables, figures = list(TABLES), list(FIGURES)
    folder = out or results[0] / "report"
    sections = read_report(results, tables)
    written: list[Path] = []
    if tables:
        written += write_tables(sections, folder)
        if not as_json:
            print_parts(*(part for section in sections if section.tables for part in _parts(section)))
    if figures:
        written += write_figures(sections, figures, folder)
    if not written:
        raise InputError("nothing to report: the warnings above say why")
    if as_json:
        suites = [asdict(found) for found in result_facts(sections)]
        print_json({"schema_version": 1, "suites": suites, "written": [str(path) for path in written]})
        return 0
    print_parts("" if tables else None, f"wrote {', '.join(path.name for path in written)} in {folder}")
    return 0


def _chosen(kind: str, names: Sequence[str], known: Collection[str]) -> list[str]:
    """Return the names, once each. Raises InputError for an unknown one."""

    for name in names:
        if name not in known:
            raise InputError(f"there is no {kind} '{shown(name)}'; known are {', '.join(known)}")
    return list(dict.fromkeys(names))


def _parts(section: Section) -> Iterator[RenderableType]:
    from placewright.lab.bench.documents import facts
    from placewright.terminal.tables import heading, line

    told = dict(facts(section.results))
    yield heading(f"{section.results.name}: {told['Objective']} on {told['Machine']}, {told['Instances']}")
    for table in section.tables:
        yield ""
        yield line(table.title, "dim")
        yield _grid(table)
        yield from (line(note) for note in table.notes)


def _grid(bench_table: AnyTable) -> RenderableType:
    """Return a table with as many columns as the terminal has room for; the Markdown file has all columns."""
    from placewright.terminal.tables import table

    columns = _fitting(bench_table)
    names = [f"<{column.heading}" if index == 0 else column.heading for index, column in enumerate(columns)]
    return table(names, ([column.text(line) for column in columns] for line in bench_table.rows))


def _fitting(bench_table: AnyTable) -> list[Column[Any]]:
    from placewright.terminal.tables import width

    taken = {
        column.name: 2 + max(len(column.heading), *(len(column.text(line)) for line in bench_table.rows))
        for column in bench_table.columns
    }
    first = bench_table.columns[0].name
    taken[first] = min(taken[first], _LABEL_WIDTH)
    columns = list(bench_table.columns)
    while sum(taken[column.name] for column in columns) - 2 > width():
        most = max(column.spare for column in columns)
        if most == 0:
            break
        columns = [column for column in columns if column.spare < most]
    return columns
