"""Memory limit against step time as one HTML page with a chart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from string import Template

from placewright.analysis.frontier import Frontier, Rival
from placewright.report.markup import Markup, cell, element, escaped, figure, joined, number, page, table
from placewright.support.files import write_atomically
from placewright.support.quantities import format_bytes, format_time_ns

#: Of the drawing's own coordinates.
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 920.0, 380.0, 80.0, 40.0, 18.0, 44.0
_NUM_TICKS = 5


def write_frontier_report(found: Frontier, path: str | Path) -> None:
    """Write the page: one HTML file that loads nothing over the network.

    Raises InputError when the file cannot be written.
    """
    write_atomically(path, frontier_html(found).encode("utf-8", "replace"))


def frontier_html(found: Frontier) -> str:
    """The page as text."""
    return Template(page("frontier.html")).substitute(
        title=escaped(f"{found.graph} on {found.machine}"),
        style=page("report.css"),
        own_style=page("frontier.css"),
        heading=_heading(found),
        figures=_figures(found),
        chart=_chart(found),
        points=_points(found),
        rivals=_rivals(found),
    )


def _heading(found: Frontier) -> Markup:
    return joined(
        [
            element("h1", f"{found.graph} on {found.machine}"),
            element(
                "p",
                "memory limit against step time, where ops may run again and tensors be moved to the host",
                class_="facts",
            ),
            element("p", found.basis, class_="facts"),
        ]
    )


def _figures(found: Frontier) -> Markup:
    smallest, fastest = found.points[0], format_time_ns(found.step_time_ns)
    share = f"{smallest.share:.0%} of the peak with everything kept"
    proven = f", at least {smallest.least_extra_time:.1%} (proven)" if smallest.least_extra_time > 0 else ""
    slower = f"{smallest.extra_time:.1%} more time{proven}"
    needs = f"'{found.least_possible_op}' needs that much while it runs, whatever runs again."
    shown = [
        figure("Smallest limit found", format_bytes(found.least_found_bytes), share, slower, kind="figure main"),
        figure("No plan fits into less than", format_bytes(found.least_possible_bytes), needs),
        figure("Everything kept", format_bytes(found.peak_bytes), f"takes {fastest}"),
    ]
    return element("div", *shown, class_="fit-figures")


class _Scale:
    """From bytes and times to places in the drawing: both axes hold all points, and the bytes begin at 0."""

    def __init__(self, found: Frontier) -> None:
        times = [point.step_time_ns for point in found.points] + [rival.step_time_ns for rival in found.rivals]
        times += [point.least_time_ns for point in found.points]
        self.low, high = min(found.step_time_ns, *times), max(times)
        self.high = max(high, self.low + 1) + max(1, (high - self.low) // 20)
        self.most = max(found.peak_bytes, *(rival.peak_bytes for rival in found.rivals), 1)

    def x(self, size: float) -> float:
        return _LEFT + size / self.most * (_WIDTH - _LEFT - _RIGHT)

    def y(self, time: float) -> float:
        return _TOP + (self.high - time) / (self.high - self.low) * (_HEIGHT - _TOP - _BOTTOM)


def _chart(found: Frontier) -> Markup:
    scale = _Scale(found)
    best = [(point.limit_bytes, point.step_time_ns) for point in found.points]
    proven = [(point.limit_bytes, point.least_time_ns) for point in found.points]
    # The ground where no plan can be.
    width = scale.x(found.least_possible_bytes) - _LEFT
    height = _HEIGHT - _TOP - _BOTTOM
    drawing = element(
        "svg",
        element("title", "step time within each memory limit"),
        *_axes(scale),
        element("rect", x=f"{_LEFT:g}", y=f"{_TOP:g}", width=f"{width:.1f}", height=f"{height:g}", class_="ground"),
        element("polyline", points=_places(scale, proven), class_="proven"),
        element("polyline", points=_places(scale, best), class_="best"),
        *(_dot(scale, size, time, "best-dot", "planned") for size, time in best),
        *(_rival_dot(scale, each) for each in found.rivals),
        viewBox=f"0 0 {_WIDTH:g} {_HEIGHT:g}",
        role="img",
    )
    keys = [("best-key", "planned"), ("proven-key", "no plan is faster (proven)"), ("rival-key", "without a plan")]
    several = any(each.accumulation > 1 for each in found.rivals)
    keys += [("accumulated-key", "gradients accumulated")] if several else []
    shown = (element("li", element("span", class_=f"key {kind}"), text) for kind, text in keys)
    no_plan = "no plan of one pass fits (proven)" if several else "no plan fits (proven)"
    impossible = element("li", element("span", class_="key ground-key"), no_plan)
    return joined([element("ul", *shown, impossible, class_="fit-keys"), drawing])


def _axes(scale: _Scale) -> Iterator[Markup]:
    for tick in range(_NUM_TICKS + 1):
        size, time = scale.most * tick // _NUM_TICKS, scale.low + (scale.high - scale.low) * tick // _NUM_TICKS
        x, y = f"{scale.x(size):.1f}", f"{scale.y(time):.1f}"
        yield element("line", x1=f"{_LEFT:g}", x2=f"{_WIDTH - _RIGHT:g}", y1=y, y2=y, class_="grid")
        yield element("text", format_time_ns(time), x=f"{_LEFT - 8:g}", y=y, class_="tick time")
        yield element("text", format_bytes(size), x=x, y=f"{_HEIGHT - 24:g}", class_="tick")
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    yield element("text", "memory limit", x=f"{middle:g}", y=f"{_HEIGHT - 6:g}", class_="tick")


def _places(scale: _Scale, points: Sequence[tuple[int, int]]) -> str:
    return " ".join(f"{scale.x(size):.1f},{scale.y(time):.1f}" for size, time in points)


def _dot(scale: _Scale, size: int, time: int, kind: str, name: str) -> Markup:
    told = element("title", f"{name}: {format_bytes(size)}, {format_time_ns(time)}")
    return element("circle", told, cx=f"{scale.x(size):.1f}", cy=f"{scale.y(time):.1f}", r="4", class_=kind)


def _rival_dot(scale: _Scale, rival: Rival) -> Markup:
    kind = "rival-dot" if rival.accumulation == 1 else "accumulated-dot"
    return _dot(scale, rival.peak_bytes, rival.step_time_ns, kind, rival.name)


def _points(found: Frontier) -> Markup:
    headings = ("Limit", "Of the peak", "Step time", "More time", "At least (proven)", "Ops run again", "Tensors moved")
    rows = [
        element(
            "tr",
            number(format_bytes(point.limit_bytes)),
            number(f"{point.share:.0%}"),
            number(format_time_ns(point.step_time_ns)),
            number(f"{point.extra_time:.1%}"),
            number(f"{point.least_extra_time:.1%}"),
            number(f"{point.num_reruns:,}"),
            number(f"{point.num_moves:,}"),
        )
        for point in found.points
    ]
    return table([(text, "number") for text in headings], rows, "Memory limits")


def _rivals(found: Frontier) -> Markup:
    numbers = ("Peak", "Step time", "More time", "Ops run again", "Plan within that peak")
    rows = [
        element(
            "tr",
            cell(rival.name),
            number(format_bytes(rival.peak_bytes)),
            number(format_time_ns(rival.step_time_ns)),
            number(f"{rival.extra_time:.1%}"),
            number(f"{rival.num_reruns:,}"),
            number("none found" if rival.planned_time_ns is None else format_time_ns(rival.planned_time_ns)),
        )
        for rival in found.rivals
    ]
    return table([("", ""), *((text, "number") for text in numbers)], rows, "Without a plan")
