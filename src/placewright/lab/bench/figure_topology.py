"""Figure 12: improvement of the paper's method by topology, over the noisy copies of each graph (REGAL, A.17)."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

from placewright.lab.bench.figure_style import BETTER, QUIET, WORSE, headline
from placewright.lab.bench.result_set import ResultSet
from placewright.lab.bench.summaries import Summary
from placewright.support.quantities import counted

#: The solver of the figure.
_SOLVER = "regal"
#: The least number of graphs of a box.
_FEWEST = 4


def by_topology(results: ResultSet, found: Sequence[Summary]) -> Any:
    """A box per topology: quartiles, median and range; a sentence where there are too few copies."""
    from matplotlib.figure import Figure

    groups = improvements_by_topology(results, found)
    if not groups:
        return f"no graph has {_FEWEST} instances on which '{_SOLVER}' and {results.measure.reference_name} ran"
    names = sorted(groups, key=lambda name: median(groups[name]))
    figure: Any = Figure(figsize=(max(5.6, 1.4 + 0.15 * len(names)), 5.2), layout="constrained")
    figure.get_layout_engine().set(rect=(0, 0, 1, 1 - 0.62 / 5.2))
    axes = figure.subplots()
    boxes = axes.boxplot([groups[name] for name in names], whis=(0, 100), widths=0.62, patch_artist=True)
    for name, box in zip(names, boxes["boxes"], strict=True):
        box.set(facecolor=BETTER if median(groups[name]) >= 0 else WORSE, edgecolor="none", alpha=0.55)
    for part in ("whiskers", "caps", "medians"):
        for line in boxes[part]:
            line.set(color=QUIET if part != "medians" else "black", linewidth=0.8)
    axes.axhline(0, color=QUIET, linewidth=0.8)
    axes.grid(visible=False, axis="x")
    axes.set_xticks(range(1, len(names) + 1), names, rotation=90, size=6)
    axes.set_ylabel(f"% improvement over {results.measure.reference_name}")
    counts = sorted({len(group) for group in groups.values()})
    headline(
        figure,
        f"{results.name}: {_SOLVER} by topology",
        f"{_of_each(counts[0], counts[-1])} of each, noisy copies among them; box: quartiles, lines: range",
    )
    return figure


def _of_each(fewest: int, most: int) -> str:
    return counted(most, "graph") if fewest == most else f"{fewest} to {most} graphs"


def improvements_by_topology(results: ResultSet, found: Sequence[Summary]) -> dict[str, list[float]]:
    """Return percent on each of a topology's graphs, under the limit of the reference, where there are enough of
    them."""
    groups: dict[str, list[float]] = {}
    for summary in found:
        setting = summary.setting
        if setting.solver == _SOLVER and setting.limit == results.measure.reference.limit:
            for graph, value in summary.improvement.items():
                groups.setdefault(results.topology_of(graph), []).append(value)
    return {name: values for name, values in groups.items() if len(values) >= _FEWEST}
