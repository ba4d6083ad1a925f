"""The output of `run`: a plan compared with its run."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rich.console import RenderableType

from placewright.execution.comparison import RunComparison, difference, kind_rows, peak_rows, step_rows
from placewright.support.quantities import format_bytes, format_time_ns
from placewright.terminal.tables import heading, line, table

_COLUMNS = ("planned", "measured", "difference")


def run_table(found: RunComparison) -> Iterator[RenderableType]:
    speedup = f"{found.measured_speedup:.2f} times as fast as one of the devices; planned {found.planned_speedup:.2f}"
    yield heading(f"{found.name} on {', '.join(device.device for device in found.devices)}: {speedup}")
    quickest, slowest = (format_time_ns(time) for time in found.measured_range_ns)
    yield line(
        f"medians of {found.steps} steps each, taken in turn; as planned, they took {quickest} to {slowest}", "dim"
    )
    yield line(f"starts of ops correlate at {found.start_correlation:.3f} with the plan", "dim")
    for fallback in found.fallbacks:
        yield line(f"the op {fallback.op} has no kernel on its device and ran on the CPU ({fallback.reason})", "yellow")
    yield ""
    yield table(
        ["<step", *_COLUMNS], ([name, *_compared(planned, measured)] for name, planned, measured in step_rows(found))
    )
    if found.rounds:
        yield ""
        rounds = (
            [
                f"planned again, {number}" if number else "first plan",
                *_compared(one.planned_ns, one.measured_ns),
                "kept" if one.kept else "",
            ]
            for number, one in enumerate(found.rounds)
        )
        yield table(["<calibration", *_COLUMNS, "<"], rounds)
    yield ""
    devices = (
        [device.device, f"{device.num_ops:,}", *_compared(device.planned_busy_ns, device.measured_busy_ns)]
        for device in found.devices
    )
    yield table(["<device", "ops", "busy, planned", "busy, measured", "difference"], devices)
    yield ""
    kinds = (
        [kind, f"{num_ops:,}", *_compared(planned, measured)] for kind, num_ops, planned, measured in kind_rows(found)
    )
    yield table(["<kind", "ops", *_COLUMNS], kinds)
    yield ""
    peaks = ([name, *_compared(planned, measured, format_bytes)] for name, planned, measured in peak_rows(found))
    yield table(["<peak memory", *_COLUMNS], peaks)


def _compared(planned: int | None, measured: int, text: Callable[[int], str] = format_time_ns) -> tuple[str, str, str]:
    if planned is None:
        return "", text(measured), ""
    return text(planned), text(measured), difference(planned, measured)
