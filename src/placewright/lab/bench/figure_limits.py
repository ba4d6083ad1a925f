"""Figure 3: improvement over the reference as the limit on evaluations grows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from placewright.lab.bench.figure_style import QUIET, headline, looks
from placewright.lab.bench.result_set import ResultSet
from placewright.lab.bench.solver_setting import format_evaluations
from placewright.lab.bench.summaries import Summary
from placewright.lab.statistics import Mean
from placewright.support.quantities import counted

#: (evaluations, mean improvement) in the order of evaluations.
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
    # The legend names them from above, as the lines end.
    for solver, line in sorted(lines.items(), key=lambda own: -own[1][-1][1].value):
        _draw(axes, look_of[solver], line, _label(solver, line, num_graphs))
    _finish(axes, sorted({evaluations for line in lines.values() for evaluations, _ in line}))
    axes.set_ylabel(f"% improvement over {results.measure.reference_name}")
    headline(figure, f"{results.name}: improvement by evaluation limit", _subtitle(results, num_graphs))
    axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
    return figure


def _subtitle(results: ResultSet, num_graphs: set[int]) -> str:
    over = counted(min(num_graphs), "graph") if len(num_graphs) == 1 else "graphs"
    return f"{results.header.objective}, mean over {over} with its 95% confidence interval"


def _label(solver: str, line: Line, num_graphs: set[int]) -> str:
    """The solver, with the number of graphs where lines differ in it."""
    count = f" ({counted(line[-1][1].num_graphs, 'graph')})" if len(num_graphs) > 1 else ""
    return f"{solver}{count}"


def lines_by_solver(found: Sequence[Summary]) -> dict[str, Line]:
    """Return the lines of solvers with several limits. Each line is over the graphs that all its points have, so that
    its points are comparable."""
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


def _draw(axes: Any, look: tuple[str, str], line: Line, label: str) -> None:
    colour, marker = look
    x = [evaluations for evaluations, _ in line]
    y = [mean.value for _, mean in line]
    spread = [mean.half_width or 0.0 for _, mean in line]
    drawn = {"color": colour, "marker": marker, "markersize": 5, "linewidth": 1.6, "elinewidth": 1, "capsize": 2}
    axes.errorbar(x, y, yerr=spread, label=label, **drawn)


def _finish(axes: Any, limits: Sequence[int]) -> None:
    axes.set_xscale("log")
    axes.minorticks_off()
    axes.set_xticks(limits, [format_evaluations(limit) for limit in limits])
    axes.set_xlim(limits[0] / 1.3, limits[-1] * 1.3)
    axes.set_xlabel("evaluation limit per graph (log scale)")
