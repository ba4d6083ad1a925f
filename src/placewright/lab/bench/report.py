"""The report on results: tables as Markdown and CSV, figures as SVG and PNG, in one folder."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from placewright.lab.bench.columns import AnyTable
from placewright.lab.bench.documents import csv_text, markdown
from placewright.lab.bench.figure_histogram import histograms
from placewright.lab.bench.figure_limits import by_limit
from placewright.lab.bench.figure_style import as_files, style
from placewright.lab.bench.figure_topology import by_topology
from placewright.lab.bench.graph_tables import graphs_table
from placewright.lab.bench.heuristic_tables import heuristics_table, limits_table
from placewright.lab.bench.result_set import ResultSet, read_result_sets
from placewright.lab.bench.summaries import Summary, summaries
from placewright.lab.bench.tables import table_1, table_3
from placewright.support.files import make_folder, write_atomically

_logger = logging.getLogger(__name__)

#: Functions by name that make a table of a result set, or return a sentence where there is none.
TABLES: dict[str, Callable[[ResultSet, Sequence[Summary]], AnyTable | str]] = {
    "1": table_1,
    "3": table_3,
    "heuristics": heuristics_table,
    "limits": limits_table,
    "graphs": graphs_table,
}
FIGURES = ("2", "3", "12")


@dataclass(frozen=True, kw_only=True)
class Section:
    """One result set of a report: its settings and the requested tables."""

    results: ResultSet
    summaries: tuple[Summary, ...]
    tables: tuple[AnyTable, ...]


def read_report(folders: Sequence[Path], tables: Collection[str]) -> list[Section]:
    """Return sections with the tables of these names, one per suite; omissions are logged as warnings.

    Raises InputError for folders without results and for results that contradict each other.
    """
    all_results, complaints = read_result_sets(folders)
    for complaint in complaints:
        _logger.warning("%s", complaint)
    return [_section(results, tables) for results in all_results]


def _section(results: ResultSet, tables: Collection[str]) -> Section:
    found = summaries(results)
    made = []
    for name in (name for name in TABLES if name in tables):
        table = TABLES[name](results, found)
        if isinstance(table, str):
            _logger.warning("%s: no table %s: %s", results.name, name, table)
        else:
            made.append(table)
    return Section(results=results, summaries=tuple(found), tables=tuple(made))


def write_tables(sections: Sequence[Section], folder: Path) -> list[Path]:
    """Write `SUITE.md` per suite that has tables and `table-NAME.csv` over all suites. Raises InputError when they
    cannot be written."""
    make_folder(folder)
    told = [section for section in sections if section.tables]
    files = {f"{section.results.name}.md": markdown(section.results, section.tables) for section in told}
    every = [table for section in sections for table in section.tables]
    for name in dict.fromkeys(table.name for table in every):
        files[f"{name}.csv"] = csv_text([table for table in every if table.name == name])
    return [_write(folder / name, text.encode()) for name, text in files.items()]


def write_figures(sections: Sequence[Section], figures: Collection[str], folder: Path) -> list[Path]:
    """Write `SUITE-figure-F.svg` and `.png`; a figure for which there is nothing to draw is left out with a warning.

    Raises MissingExtraError without matplotlib, InputError when they cannot be written.
    """

    make_folder(folder)
    written = []
    for section in sections:
        for figure in (name for name in FIGURES if name in figures):
            drawn = draw_figure(figure, section.results, section.summaries)
            if isinstance(drawn, str):
                _logger.warning("%s: no figure %s: %s", section.results.name, figure, drawn)
                continue
            for suffix, data in drawn.items():
                written.append(_write(folder / f"{section.results.name}-figure-{figure}.{suffix}", data))
    return written


def _write(path: Path, data: bytes) -> Path:
    write_atomically(path, data)
    return path


#: Each gives a figure, or a sentence when there is nothing to draw.
_DRAWN_BY: dict[str, Callable[[ResultSet, Sequence[Summary]], Any]] = {
    "2": histograms,
    "3": by_limit,
    "12": by_topology,
}


def draw_figure(name: str, results: ResultSet, found: Sequence[Summary]) -> dict[str, bytes] | str:
    """Return the figure's files by suffix, or why there is nothing to draw.

    Raises MissingExtraError without matplotlib.
    """
    with style():
        figure = _DRAWN_BY[name](results, found)
        return figure if isinstance(figure, str) else as_files(figure)
