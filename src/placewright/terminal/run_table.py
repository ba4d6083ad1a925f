"""What `run` prints: a plan beside its run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType

from placewright.execution.comparison import DeviceTimes, RunComparison
from placewright.execution.run_rows import AnyRun, difference, kind_rows, step_rows
from placewright.support.quantities import format_bytes, format_time_ns
from placewright.terminal.tables import heading, line, table


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
    yield table(["<step", "planned", "measured", "difference"], step_cells(found))
    if found.rounds:
        yield ""
        yield table(["<calibration", "planned", "measured", "difference", "<"], _round_rows(found))
    yield ""
    yield table(["<device", "ops", "busy, planned", "busy, measured", "difference"], device_rows(found.devices))
    yield ""
    yield table(["<kind", "ops", "planned", "measured", "difference"], _kind_rows(found))
    yield ""
    yield table(["<peak memory", "planned", "measured", "difference"], _memory_rows(found))


def step_cells(found: AnyRun) -> Iterator[tuple[str, str, str, str]]:
    """Each way to run a step."""
    for name, planned, measured in step_rows(found):
        if planned is None:
            yield name, "", format_time_ns(measured), ""
        else:
            yield name, format_time_ns(planned), format_time_ns(measured), difference(planned, measured)


def _round_rows(found: RunComparison) -> Iterator[tuple[str, str, str, str, str]]:
    for number, one in enumerate(found.rounds):
        name = f"planned again, {number}" if number else "first plan"
        times = format_time_ns(one.planned_ns), format_time_ns(one.measured_ns)
        yield name, *times, difference(one.planned_ns, one.measured_ns), "kept" if one.kept else ""


def device_rows(devices: Sequence[DeviceTimes]) -> Iterator[tuple[str, str, str, str, str]]:
    """How long each device computes."""
    for device in devices:
        planned, measured = device.planned_busy_ns, device.measured_busy_ns
        times = format_time_ns(planned), format_time_ns(measured), difference(planned, measured)
        yield device.device, f"{device.num_ops:,}", *times


def _kind_rows(found: RunComparison) -> Iterator[tuple[str, str, str, str, str]]:
    for kind, num_ops, planned, measured in kind_rows(found):
        times = format_time_ns(planned), format_time_ns(measured), difference(planned, measured)
        yield kind, f"{num_ops:,}", *times


def _memory_rows(found: RunComparison) -> Iterator[tuple[str, str, str, str]]:
    for name, planned, measured in (
        ("as planned", found.planned_peak_bytes, found.measured_peak_bytes),
        (
            "on the first device alone, in captured order",
            found.one_device_planned_peak_bytes,
            found.one_device_measured_peak_bytes,
        ),
    ):
        if planned is not None and measured is not None:
            yield name, format_bytes(planned), format_bytes(measured), difference(planned, measured)
    yield "PyTorch", "", format_bytes(found.eager_peak_bytes), ""
    if found.torch_compile_peak_bytes is not None:
        yield "torch.compile", "", format_bytes(found.torch_compile_peak_bytes), ""
