"""Quality against seconds: how far from the bound each setting ends, and how long it takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from placewright.lab.bench.figure_labels import Label, Polyline, place_labels
from placewright.lab.bench.figure_style import INK, QUIET, headline, looks, text_colour
from placewright.lab.bench.number_text import format_number
from placewright.lab.bench.result_set import ResultSet
from placewright.lab.bench.solver_setting import SolverSetting
from placewright.lab.bench.summaries import Summary
from placewright.support.quantities import counted

_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))
_TOLD = "means over graphs; grey: the front, below which nobody is as quick and as good"
#: A time or gap of nothing has no logarithm; rows keep microseconds.
_LEAST_SECONDS = 1e-6


@dataclass(frozen=True)
class Point:
    """A setting in the figure: mean seconds per graph and mean gap in percent over the same graphs."""

    setting: SolverSetting
    seconds: float
    gap: float
    num_graphs: int


def by_seconds(results: ResultSet, found: Sequence[Summary]) -> Any:
    """A labelled point per setting, limits of one solver joined, the Pareto front behind; or a sentence."""
    from matplotlib.figure import Figure

    points = points_of(found)
    if not points:
        return "no setting has a feasible plan and a lower bound above 0"
    figure: Any = Figure(figsize=(9.6, 6.2), layout="constrained")
    figure.get_layout_engine().set(rect=(0, 0, 0.99, 1 - 0.66 / 6.2))
    axes = figure.subplots()
    floor = min((point.gap for point in points if point.gap > 0), default=1.0) / 3
    steps = _draw_front(axes, front(points), floor)
    solvers = _solvers(points, looks(found))
    most = max(point.num_graphs for point in points)
    labels = [label for own, look in solvers for label in _draw_solver(axes, own, floor, look, most)]
    _finish(axes, points, floor)
    headline(figure, f"{results.name}: quality against time", f"{results.header.objective}, {_TOLD}")
    lines = [[(point.seconds, max(point.gap, floor)) for point in own] for own, _ in solvers]
    # Names have fewer places to go than limits, so they choose first; from above, so that they stack like their points.
    labels.sort(key=lambda label: (label.text[0].isdigit(), -label.y, label.text))
    place_labels(axes, labels, [steps, *lines])
    return figure


def points_of(found: Sequence[Summary]) -> list[Point]:
    """Contestants with a gap to a bound."""
    points = []
    for summary in found:
        mean = summary.mean(summary.gap_bound)
        if mean is not None:
            seconds = fmean(summary.entry.seconds[graph] for graph in summary.gap_bound)
            points.append(Point(summary.setting, max(seconds, _LEAST_SECONDS), mean.value, mean.num_graphs))
    return points


def front(points: Sequence[Point]) -> list[Point]:
    """The points that no other one beats in time and gap, the quickest first."""
    best: list[Point] = []
    for point in sorted(points, key=lambda point: (point.seconds, point.gap)):
        if not best or point.gap < best[-1].gap:
            best.append(point)
    return best


def _draw_front(axes: Any, best: Sequence[Point], floor: float) -> Polyline:
    """The front as steps; their corners."""
    corners: list[tuple[float, float]] = []
    for point in best:
        gap = max(point.gap, floor)
        before = corners[-1][1] if corners else gap
        corners += [(point.seconds, before), (point.seconds, gap)]
    axes.plot(*zip(*corners, strict=True), color="#DDDDDD", linewidth=5, solid_capstyle="round", zorder=1)
    return corners


def _solvers(
    points: Sequence[Point], look_of: Mapping[str, tuple[str, str]]
) -> list[tuple[list[Point], tuple[str, str]]]:
    """Points by solver, the quickest first, with colour and marker; solvers with one limit are all black dots."""
    by_solver: dict[str, list[Point]] = {}
    for point in sorted(points, key=lambda point: (point.setting.solver, point.seconds)):
        by_solver.setdefault(point.setting.solver, []).append(point)
    return [(own, look_of.get(solver, (INK, "o"))) for solver, own in by_solver.items()]


def _draw_solver(axes: Any, own: Sequence[Point], floor: float, look: tuple[str, str], most: int) -> list[Label]:
    """A line or a lone point. The last point's label has the solver's name, the others only their limits.

    most: graphs that a setting has; those with fewer say so.
    """
    colour, marker = look
    x = [point.seconds for point in own]
    y = [max(point.gap, floor) for point in own]
    size = 5.5 if len(own) > 1 else 4.5
    axes.plot(x, y, color=colour, marker=marker, markersize=size, linewidth=1.5, zorder=3)
    texts = [point.setting.limit or point.setting.solver for point in own[:-1]] + [own[-1].setting.short_label]
    texts = [text + _coverage(point.num_graphs, most) for text, point in zip(texts, own, strict=True)]
    weights = ["normal"] * (len(own) - 1) + ["bold" if len(own) > 1 else "normal"]
    return [
        Label(a, b, text, text_colour(colour), weight) for a, b, text, weight in zip(x, y, texts, weights, strict=True)
    ]


def _coverage(num_graphs: int, most: int) -> str:
    """ " (1 graph)", or nothing where those are all."""
    return "" if num_graphs == most else f" ({counted(num_graphs, 'graph')})"


def _finish(axes: Any, points: Sequence[Point], floor: float) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.margins(x=0.12, y=0.07)
    if any(point.gap <= 0 for point in points):
        axes.axhline(floor, color=QUIET, linewidth=0.8, linestyle=":")
        axes.text(-0.01, floor, "0%", transform=axes.get_yaxis_transform(), ha="right", va="center")
    low, high = axes.get_ylim()
    if high < 100 * low:
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda seconds, _: format_seconds(seconds)))
    # Below the least gap there is only the line of no gap.
    axes.yaxis.set_major_formatter(FuncFormatter(lambda gap, _: "" if gap < 2 * floor else f"{gap:g}%"))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("time per graph (log scale)")
    axes.set_ylabel("gap to the lower bound (log scale)")


def format_seconds(seconds: float) -> str:
    """A power of ten in the unit that needs no decimals: "10 ms", "100 µs"."""
    factor, unit = next((one for one in _UNITS if seconds >= one[0] * (1 - 1e-9)), _UNITS[-1])
    return f"{format_number(seconds / factor, decimals=0)} {unit}"
