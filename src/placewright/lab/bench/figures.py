"""The figures of a report by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from placewright.lab.bench.figure_histogram import histograms
from placewright.lab.bench.figure_limits import by_limit
from placewright.lab.bench.figure_seconds import by_seconds
from placewright.lab.bench.figure_style import as_files, style
from placewright.lab.bench.figure_topology import by_topology
from placewright.lab.bench.result_set import ResultSet
from placewright.lab.bench.summaries import Summary

#: Each gives a figure, or a sentence when there is nothing to draw.
_DRAWN_BY: dict[str, Callable[[ResultSet, Sequence[Summary]], Any]] = {
    "2": histograms,
    "3": by_limit,
    "12": by_topology,
    "seconds": by_seconds,
}


def draw_figure(name: str, results: ResultSet, found: Sequence[Summary]) -> dict[str, bytes] | str:
    """Files of the figure by suffix, or why there is nothing to draw. Raises MissingExtraError without matplotlib."""
    with style():
        figure = _DRAWN_BY[name](results, found)
        return figure if isinstance(figure, str) else as_files(figure)
