"""HTML page with a chart of step time against memory limit."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from placewright.analysis.frontier import Frontier, FrontierPoint, Rival
from placewright.report.markup import (
    Markup,
    cell,
    element,
    figure,
    joined,
    number,
    page,
    scrolled,
    section,
    still_page,
    table,
)
from placewright.support.files import write_atomically
from placewright.support.quantities import change, format_bytes, format_time_ns, proven_change, round_marks

#: Width and height of the drawing in its own coordinates, for wide and narrow windows; letters are equally large.
_SIZES = {"wide": (920.0, 380.0), "narrow": (400.0, 320.0)}
_LEFT, _RIGHT, _TOP, _BOTTOM = 72.0, 24.0, 14.0, 44.0
#: Space to the left of the least possible limit, as a share of the axis.
_MARGIN = 0.06


def write_frontier_report(found: Frontier, path: str | Path) -> None:
    """Write the page: one HTML file that loads nothing over the network.

    Raises InputError when the file cannot be written.
    """
    write_atomically(path, frontier_html(found).encode("utf-8", "replace"))


def frontier_html(found: Frontier) -> str:
    """Render the page as text."""
    title = f"{found.graph} on {found.machine}"
    return still_page(
        title,
        "placewright fit",
        _heading(found),
        joined(
            [
                element("section", _figures(found), aria_label="Result"),
                section("chart", "Step time within each limit", _chart(found)),
                section("limits", "Limits", scrolled(_points(found))),
                section("rivals", "Without a plan", scrolled(_rivals(found))),
            ]
        ),
        style=page("fit.css"),
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
    smallest = found.points[0]
    needs = f"'{found.least_possible_op}' needs that much while it runs, whatever runs again."
    if (parted := found.least_in_parts) is not None:
        needs += f" That is as one op: the {parted.name} takes {format_bytes(parted.peak_bytes)}."
    share = f"{smallest.share:.0%} of the peak with everything kept"
    shown = [
        _answer(found),
        figure("Smallest limit found", format_bytes(found.least_found_bytes), share, _more_time(found, smallest)),
        figure("No plan fits into less than", format_bytes(found.least_possible_bytes), needs),
    ]
    return element("div", *shown, class_="fit-figures")


def _answer(found: Frontier) -> Markup:
    """Say whether the step fits the device, and the time it then takes."""
    kept = f"{format_bytes(found.peak_bytes)} and {format_time_ns(found.step_time_ns)} with everything kept"
    memory = found.memory_bytes
    if memory is None:
        return figure("Everything kept", format_bytes(found.peak_bytes), f"takes {format_time_ns(found.step_time_ns)}")
    label = f"In the {format_bytes(memory)} of {found.machine}"
    if found.peak_bytes <= memory:
        return figure(label, "fits as it is", kept, kind="figure main")
    within = [point for point in found.points if point.limit_bytes <= memory]
    if not within:
        return figure(label, "does not fit", kept, kind="figure main bad")
    reached = format_time_ns(within[-1].step_time_ns)
    return figure(label, reached, _more_time(found, within[-1]), kept, kind="figure main")


def _more_time(found: Frontier, point: FrontierPoint) -> str:
    least = proven_change(point.least_time_ns, found.step_time_ns)
    proven = "" if least == "none" else f", at least {least.removeprefix('+')} (proven)"
    return f"{change(point.step_time_ns, found.step_time_ns).removeprefix('+')} more time{proven}"


class _Scale:
    """Maps bytes and times to coordinates of the drawing; both axes begin near the points."""

    def __init__(self, found: Frontier, width: float, height: float) -> None:
        times = [point.step_time_ns for point in found.points] + [rival.step_time_ns for rival in found.rivals]
        times += [point.least_time_ns for point in found.points]
        low, high = min(found.step_time_ns, *times), max(found.step_time_ns, *times)
        self.low, self.high = low, high + max(1, (high - low) // 20)
        sizes = [found.peak_bytes, found.least_possible_bytes, *(rival.peak_bytes for rival in found.rivals)]
        self.most = max(*sizes, 1)
        self.least = max(0.0, min(sizes) - _MARGIN * (self.most - min(sizes)))
        self.width, self.height = width, height

    def x(self, size: float) -> float:
        return _LEFT + (size - self.least) / (self.most - self.least or 1) * (self.width - _LEFT - _RIGHT)

    def y(self, time: float) -> float:
        return _TOP + (self.high - time) / (self.high - self.low) * (self.height - _TOP - _BOTTOM)


def _chart(found: Frontier) -> Markup:
    keys = [("best-key", "planned"), ("proven-key", "no plan is faster (proven)"), ("rival-key", "without a plan")]
    several = any(each.accumulation > 1 or each.parts > 1 for each in found.rivals)
    keys += [("accumulated-key", "gradients accumulated, or ops in parts")] if several else []
    shown = (element("li", element("span", class_=f"key {kind}"), text) for kind, text in keys)
    no_plan = "no plan of one pass of whole ops fits (proven)" if several else "no plan fits (proven)"
    impossible = element("li", element("span", class_="key ground-key"), no_plan)
    note = element("p", "Neither axis begins at 0.", class_="muted note")
    drawings = (_drawing(found, name, *size) for name, size in _SIZES.items())
    return joined([element("ul", *shown, impossible, class_="fit-keys"), *drawings, note])


def _drawing(found: Frontier, name: str, width: float, height: float) -> Markup:
    scale = _Scale(found, width, height)
    best = [(point.limit_bytes, point.step_time_ns) for point in found.points]
    proven = [(point.limit_bytes, point.least_time_ns) for point in found.points]
    # The area where no plan is possible.
    ground = f"{max(0.0, scale.x(found.least_possible_bytes) - _LEFT):.1f}"
    deep = f"{height - _TOP - _BOTTOM:g}"
    return element(
        "svg",
        element("title", "step time within each memory limit"),
        element("rect", x=f"{_LEFT:g}", y=f"{_TOP:g}", width=ground, height=deep, class_="ground"),
        *_axes(scale),
        element("polyline", points=_places(scale, proven), class_="proven"),
        element("polyline", points=_places(scale, best), class_="best"),
        *(_dot(scale, size, time, "best-dot", "planned") for size, time in best),
        *(_rival_dot(scale, each) for each in found.rivals),
        viewBox=f"0 0 {width:g} {height:g}",
        role="img",
        class_=f"curve {name}",
    )


def _axes(scale: _Scale) -> Iterator[Markup]:
    bottom, right = scale.height - _BOTTOM, scale.width - _RIGHT
    for time, text in round_marks(scale.low, scale.high, _num_marks(scale.height) + 2, kind="time"):
        y = f"{scale.y(time):.1f}"
        yield element("line", x1=f"{_LEFT - 5:g}", x2=f"{right:g}", y1=y, y2=y, class_="grid")
        yield element("text", text, x=f"{_LEFT - 9:g}", y=y, class_="tick time")
    for size, text in round_marks(math.ceil(scale.least), scale.most, _num_marks(scale.width), kind="bytes"):
        x = f"{scale.x(size):.1f}"
        yield element("line", x1=x, x2=x, y1=f"{bottom:g}", y2=f"{bottom + 5:g}", class_="axis")
        yield element("text", text, x=x, y=f"{bottom + 18:g}", class_="tick")
    yield element("line", x1=f"{_LEFT:g}", x2=f"{right:g}", y1=f"{bottom:g}", y2=f"{bottom:g}", class_="axis")
    yield element("line", x1=f"{_LEFT:g}", x2=f"{_LEFT:g}", y1=f"{_TOP:g}", y2=f"{bottom:g}", class_="axis")
    yield element("text", "memory limit", x=f"{(_LEFT + right) / 2:g}", y=f"{scale.height - 6:g}", class_="tick")


def _num_marks(length: float) -> int:
    return int(length // 75)


def _places(scale: _Scale, points: Sequence[tuple[int, int]]) -> str:
    return " ".join(f"{scale.x(size):.1f},{scale.y(time):.1f}" for size, time in points)


def _dot(scale: _Scale, size: int, time: int, kind: str, name: str) -> Markup:
    told = element("title", f"{name}: {format_bytes(size)}, {format_time_ns(time)}")
    return element("circle", told, cx=f"{scale.x(size):.1f}", cy=f"{scale.y(time):.1f}", r="4", class_=kind)


def _rival_dot(scale: _Scale, rival: Rival) -> Markup:
    kind = "rival-dot" if rival.accumulation == rival.parts == 1 else "accumulated-dot"
    return _dot(scale, rival.peak_bytes, rival.step_time_ns, kind, rival.name)


def _points(found: Frontier) -> Markup:
    headings = ("Limit", "Of the peak", "Step time", "More time", "At least (proven)", "Ops run again", "Tensors moved")
    rows = [
        element(
            "tr",
            number(format_bytes(point.limit_bytes)),
            number(f"{point.share:.0%}"),
            number(format_time_ns(point.step_time_ns)),
            number(change(point.step_time_ns, found.step_time_ns)),
            number(proven_change(point.least_time_ns, found.step_time_ns)),
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
            number(change(rival.step_time_ns, found.step_time_ns)),
            number(f"{rival.num_reruns:,}"),
            number("none found" if rival.planned_time_ns is None else format_time_ns(rival.planned_time_ns)),
        )
        for rival in found.rivals
    ]
    return table([("", ""), *((text, "number") for text in numbers)], rows, "Without a plan")
