"""Comparison of a plan with its run: planned and measured times of steps, devices and kinds of ops."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from placewright.execution.comparison import RunComparison, difference, kind_rows, peak_rows, step_rows
from placewright.report.markup import Markup, element, joined, number, table
from placewright.support.quantities import format_bytes, format_time_ns

_HEADINGS = [("Planned", "number"), ("Measured", "number"), ("Difference", "number")]


def run_section(run: RunComparison) -> Markup:
    """Draw the times of steps as bars on one scale, then tables of devices and kinds of ops."""
    quickest, slowest = (format_time_ns(time) for time in run.measured_range_ns)
    speed = f"{run.measured_speedup:.2f} times as fast as one of the devices; planned {run.planned_speedup:.2f}. "
    note = (
        f"Medians of {run.steps:,} steps each, taken in turn; as planned, they took {quickest} to {slowest}. "
        f"Starts of ops correlate at {run.start_correlation:.3f} with the plan."
    )
    tables = element("div", _devices(run), element("div", _kinds(run)), class_="columns run-tables")
    return joined([_steps(run), element("p", speed, note, class_="muted note"), tables])


def _steps(run: RunComparison) -> Markup:
    rows = list(step_rows(run))
    longest = max(time for _, planned, measured in rows for time in (planned, measured) if time is not None)
    drawn = [_step(name, planned, measured, longest) for name, planned, measured in rows]
    return element("ol", *drawn, class_="run-steps")


def _step(name: str, planned: int | None, measured: int, longest: int) -> Markup:
    bars = [] if planned is None else [_bar("planned", planned, planned, longest)]
    bars.append(_bar("measured", measured, planned, longest))
    return element("li", element("span", name, class_="name"), element("span", *bars, class_="pair"))


def _bar(kind: str, time: int, planned: int | None, longest: int) -> Markup:
    words = f"{format_time_ns(time)} {kind}"
    if kind == "measured" and planned:
        words += f", {difference(planned, time)}"
    drawn = element("span", class_=f"length {kind}", style=f"--share:{time / longest:.4f}")
    return element("span", drawn, element("span", words, class_="words"), class_="row")


def _devices(run: RunComparison) -> Markup:
    rows = [
        element(
            "tr",
            element("th", device.device, scope="row"),
            number(f"{device.num_ops:,}"),
            *_compared(device.planned_busy_ns, device.measured_busy_ns, "time"),
        )
        for device in run.devices
    ]
    headings = [("Device", ""), ("Ops", "number"), *_HEADINGS]
    parts = [_scrolled(headings, rows, "Time of ops by device")]
    if peaks := _peaks(run):
        parts.append(_scrolled([("Peak memory", ""), *_HEADINGS], peaks, "Peak memory, planned and measured"))
    return element("div", *parts)


def _peaks(run: RunComparison) -> list[Markup]:
    return [
        element("tr", element("th", name, scope="row"), *_compared(planned, measured, "bytes"))
        for name, planned, measured in peak_rows(run)
        if planned is not None
    ]


def _kinds(run: RunComparison) -> Markup:
    rows = [
        element("tr", element("th", kind, scope="row"), number(f"{ops:,}"), *_compared(planned, measured, "time"))
        for kind, ops, planned, measured in kind_rows(run)
    ]
    return _scrolled([("Kind", ""), ("Ops", "number"), *_HEADINGS], rows, "Time of ops by kind")


def _scrolled(headings: Sequence[tuple[str, str]], rows: Sequence[Markup], caption: str) -> Markup:
    return element("div", table(headings, rows, caption), class_="scroll")


def _compared(planned: int, measured: int, what: str) -> Iterator[Markup]:
    text = format_time_ns if what == "time" else format_bytes
    yield number(text(planned))
    yield number(text(measured))
    yield number(difference(planned, measured) or "\u2013")
