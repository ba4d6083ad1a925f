"""Figure 3: improvement over the reference as the limit on evaluations grows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from placewright.lab.bench.figure_labels import Label, Polyline, place_labels
from placewright.lab.bench.figure_style import QUIET, headline, looks, text_colour
from placewright.lab.bench.result_set import ResultSet
from placewright.lab.bench.solver_setting import format_evaluations
from placewright.lab.bench.summaries import Summary
from placewright.lab.statistics import Mean
from placewright.support.quantities import counted

#: (evaluations, mean improvement) in the sequence of evaluations.
Line = list[tuple[int, Mean]]


def by_limit(results: ResultSet, found: Sequence[Summary]) -> Any:
    """A line per solver that ran under several limits; a sentence when none did."""
    from matplotlib.figure import Figure

    lines = lines_by_solver(found)
    if not lines:
        return f"no solver ran under several evaluation limits on graphs that {results.measure.reference_name} ran on"
    figure: Any = Figure(figsize=(7.2, 5.4), layout="constrained")
    figure.get_layout_engine().set(rect=(0, 0, 0.985, 1 - 0.62 / 5.4))
    axes = figure.subplots()
    axes.axhline(0, color=QUIET, linewidth=0.8)
    num_graphs = {line[0][1].num_graphs for line in lines.values()}
    look_of = looks(found)
    for solver, line in lines.items():
        _draw(axes, look_of[solver], line)
    _finish(axes, sorted({evaluations for line in lines.values() for evaluations, _ in line}))
    axes.set_ylabel(f"% improvement over {results.measure.reference_name}")
    headline(figure, f"{results.name}: improvement by evaluation limit", _subtitle(results, num_graphs))
    labels = [_label(look_of[solver][0], solver, line, num_graphs) for solver, line in lines.items()]
    # From above, labels that make way for each other do so in the sequence of their lines.
    labels.sort(key=lambda label: -label.y)
    place_labels(axes, labels, [stroke for line in lines.values() for stroke in _strokes(line)])
    return figure


def _subtitle(results: ResultSet, num_graphs: set[int]) -> str:
    over = counted(min(num_graphs), "graph") if len(num_graphs) == 1 else "graphs"
    return f"{results.header.objective}, mean over {over} with its 95% confidence interval"


def _label(colour: str, solver: str, line: Line, num_graphs: set[int]) -> Label:
    """The solver at the end of its line, with the number of graphs where lines differ in it."""
    limit, mean = line[-1]
    count = f" ({counted(mean.num_graphs, 'graph')})" if len(num_graphs) > 1 else ""
    return Label(limit, mean.value, f"{solver}{count}", text_colour(colour), "bold")


def lines_by_solver(found: Sequence[Summary]) -> dict[str, Line]:
    """Solvers with several limits. Each line is over the graphs that all its points have, so that they compare."""
    by_solver: dict[str, list[Summary]] = {}
    for summary in found:
        setting = summary.setting
        if setting.evaluations_limit is not None and setting.time_limit_s is None and summary.improvement:
            by_solver.setdefault(setting.solver, []).append(summary)
    lines = {solver: _line(own) for solver, own in sorted(by_solver.items()) if len(own) > 1}
    return {solver: line for solver, line in lines.items() if line}


def _line(own: Sequence[Summary]) -> Line:
    common = set.intersection(*(set(summary.improvement) for summary in own))
    points: Line = []
    for summary in own:
        mean = summary.mean({graph: value for graph, value in summary.improvement.items() if graph in common})
        if mean is not None:
            points.append((summary.setting.evaluations_limit or 0, mean))
    return sorted(points, key=lambda point: point[0])


def _draw(axes: Any, look: tuple[str, str], line: Line) -> None:
    colour, marker = look
    x = [evaluations for evaluations, _ in line]
    y = [mean.value for _, mean in line]
    spread = [mean.half_width or 0.0 for _, mean in line]
    axes.errorbar(x, y, yerr=spread, color=colour, marker=marker, markersize=5, linewidth=1.6, elinewidth=1, capsize=2)


def _strokes(line: Line) -> list[Polyline]:
    """What `_draw` draws: the line and the confidence intervals."""
    strokes: list[Polyline] = [[(x, mean.value) for x, mean in line]]
    for x, mean in line:
        spread = mean.half_width or 0.0
        strokes.append([(x, mean.value - spread), (x, mean.value + spread)])
    return strokes


def _finish(axes: Any, limits: Sequence[int]) -> None:
    axes.set_xscale("log")
    axes.minorticks_off()
    axes.set_xticks(limits, [format_evaluations(limit) for limit in limits])
    # Room at the right for the labels at the lines' ends.
    axes.set_xlim(limits[0] / 1.3, limits[-1] * (limits[-1] / limits[0]) ** 0.35)
    axes.set_xlabel("evaluation limit per graph (log scale)")
