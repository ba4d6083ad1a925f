"""The output of `fit` for graphs, and with --limits: memory limit against step time, and common ways to run without a
plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rich.console import RenderableType

from placewright.analysis.frontier import Frontier
from placewright.support.errors import printable
from placewright.support.quantities import change, format_bytes, format_time_ns, proven_change, shortened
from placewright.terminal.tables import heading, line, table


def frontier_table(found: Frontier, written: Mapping[str, str] | None = None) -> Iterator[RenderableType]:
    """Yield the parts to print. written: names of the written files, by path."""
    kept = f"{format_time_ns(found.step_time_ns)} and {format_bytes(found.peak_bytes)} with everything kept"
    yield heading(f"{shortened(found.graph, 32)} on {shortened(found.machine, 24)}: {kept}")
    yield line(least_words(found))
    yield line(found.basis, "dim")
    yield table(
        ["limit", "of the peak", "step time", "more time", "at least (proven)", "ops run again", "tensors moved"],
        _points(found),
    )
    yield ""
    yield table(
        ["~without a plan", "peak", "step time", "more time", "ops run again", "plan within it"], _rivals(found)
    )
    if written:
        yield printable(f"wrote {', '.join(f'{what} {path}' for path, what in written.items())}")


def least_words(found: Frontier) -> str:
    """State the smallest limit for which a plan was found, and the smallest that is possible."""
    least, op = format_bytes(found.least_possible_bytes), found.least_possible_op
    if found.least_found_bytes <= found.least_possible_bytes:
        words = f"smallest limit: {least}, less is not possible (proven): '{op}' needs it"
    else:
        smallest = format_bytes(found.least_found_bytes)
        words = f"smallest limit found: {smallest}; less than {least} is not possible (proven): '{op}' needs it"
    parted = found.least_in_parts
    return words if parted is None else f"{words} whole; the {parted.name} takes {format_bytes(parted.peak_bytes)}"


def _points(found: Frontier) -> Iterator[list[str]]:
    for point in found.points:
        yield [
            format_bytes(point.limit_bytes),
            f"{point.share:.0%}",
            format_time_ns(point.step_time_ns),
            change(point.step_time_ns, found.step_time_ns),
            proven_change(point.least_time_ns, found.step_time_ns),
            f"{point.num_reruns:,}",
            f"{point.num_moves:,}",
        ]


def _rivals(found: Frontier) -> Iterator[list[str]]:
    for rival in found.rivals:
        yield [
            rival.name,
            format_bytes(rival.peak_bytes),
            format_time_ns(rival.step_time_ns),
            change(rival.step_time_ns, found.step_time_ns),
            f"{rival.num_reruns:,}",
            "none found" if rival.planned_time_ns is None else format_time_ns(rival.planned_time_ns),
        ]
