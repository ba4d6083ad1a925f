"""Figure 2: the number of graphs on which a solver is better or worse than the reference, and by how much."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from placewright.lab.bench.figure_style import BETTER, QUIET, WORSE, headline
from placewright.lab.bench.number_text import format_number
from placewright.lab.bench.result_set import ResultSet
from placewright.lab.bench.summaries import Summary
from placewright.support.quantities import counted

_MAX_PANELS = 9
_COLUMNS = 3
_MAX_BINS = 24


def histograms(results: ResultSet, found: Sequence[Summary]) -> Any:
    """A panel for each of the paper's methods and then the best others, at most nine; a sentence without any."""
    from matplotlib.figure import Figure

    chosen = main_settings(found)[:_MAX_PANELS]
    if not chosen:
        return f"nothing was run beside {results.measure.reference_name} on the same graphs"
    columns = min(_COLUMNS, len(chosen))
    rows = math.ceil(len(chosen) / columns)
    figure: Any = Figure(figsize=(3.3 * columns if columns > 1 else 5.2, 0.75 + 2.25 * rows), layout="constrained")
    figure.get_layout_engine().set(rect=(0, 0, 1, 1 - 0.62 / figure.get_figheight()), hspace=0.06, wspace=0.04)
    panels = figure.subplots(rows, columns, squeeze=False).flat
    for index, panel in enumerate(panels):
        if index < len(chosen):
            _panel(panel, chosen[index], first=index % columns == 0, last=index + columns >= len(chosen))
        else:
            panel.set_axis_off()
    text = "green: better, red: worse, ties are left out"
    if columns > 1:  # a single panel is too narrow for more
        text = f"{results.header.objective}; {text}"
    headline(figure, f"{results.name}: improvement over {results.measure.reference_name} by graph", text)
    return figure


def main_settings(found: Sequence[Summary]) -> list[Summary]:
    """Return one summary per solver besides the reference, in the order given: the one under the reference's limit or
    none, else its first."""
    chosen: dict[str, Summary] = {}
    comparable = [
        one for one in found if one.improvement and one.setting.solver != one.results.measure.reference.solver
    ]
    for summary in comparable:
        first = chosen.setdefault(summary.setting.solver, summary)
        if _as_reference(summary) and not _as_reference(first):
            chosen[summary.setting.solver] = summary
    return [summary for summary in comparable if chosen[summary.setting.solver] is summary]


def _as_reference(summary: Summary) -> bool:
    return summary.setting.evaluations_limit in (None, summary.results.measure.reference.evaluations_limit)


def _panel(axes: Any, summary: Summary, *, first: bool, last: bool) -> None:
    improvements = [value for value in summary.improvement.values() if value != 0]
    ties = len(summary.improvement) - len(improvements)
    matched = format_number(summary.percent_matched)
    axes.set_title(f"{summary.setting.short_label}\n", pad=4)
    told = f"matches or beats on {matched}% of {counted(len(summary.improvement), 'graph')}"
    if ties:
        told += f", {counted(ties, 'tie')}"
    axes.text(0, 1.04, told, transform=axes.transAxes, size=7.5, color=QUIET)
    axes.grid(axis="x", visible=False)
    if improvements:
        _bars(axes, improvements)
    axes.yaxis.get_major_locator().set_params(integer=True, nbins=5)
    if first:
        axes.set_ylabel("graphs")
    if last:
        axes.set_xlabel("% improvement")


def _bars(axes: Any, improvements: Sequence[float]) -> None:
    edges = bin_edges(min(improvements), max(improvements))
    for sign, colour in ((1, BETTER), (-1, WORSE)):
        own = [value for value in improvements if value * sign > 0]
        if own:
            axes.hist(own, bins=edges, color=colour, edgecolor="white", linewidth=0.6)
    axes.axvline(0, color=QUIET, linewidth=0.8)
    width = edges[1] - edges[0]
    axes.set_xlim(min(edges[0] - width / 2, -2 * width), max(edges[-1] + width / 2, 2 * width))


def bin_edges(low: float, high: float) -> list[float]:
    """Return the edges of about 24 bins at most that include both values; 0 is an edge, so that no bar counts both
    better and worse."""
    low, high = min(low, 0.0), max(high, 0.0)
    width = _round_width((high - low) / _MAX_BINS)
    first, last = math.floor(low / width), math.ceil(high / width)
    return [number * width for number in range(first, max(last, first + 1) + 1)]


def _round_width(least: float) -> float:
    """Return the next of 1, 2, 5, 10, 20, ..."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(power * step for step in (1, 2, 5, 10) if power * step >= least * (1 - 1e-9))
