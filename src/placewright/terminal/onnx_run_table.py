"""What `run` prints for an ONNX model: a plan beside its run."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType

from placewright.execution.comparison import OnnxComparison
from placewright.execution.run_rows import ALONE_IN_FILE, difference
from placewright.support.quantities import format_bytes
from placewright.terminal.run_table import device_rows, step_cells
from placewright.terminal.tables import heading, line, table


def onnx_run_table(found: OnnxComparison) -> Iterator[RenderableType]:
    speedup = f"{found.measured_speedup:.2f} times as fast as one of the devices; planned {found.planned_speedup:.2f}"
    yield heading(f"{found.name} on {', '.join(device.device for device in found.devices)}: {speedup}")
    outputs = "the same as" if found.same_outputs else "other than"
    yield line(f"medians of {found.steps} steps each, taken in turn; starts of ops correlate at "
               f"{found.start_correlation:.3f} with the plan; outputs are {outputs} without it", "dim")  # fmt: skip
    order = f"not as planned: {found.difference}"
    if found.ran_as_planned:
        order = "ONNX Runtime's profile shows every op on its device and in its place"
    yield line(f"{order}; sessions: {found.num_parts}", "dim")
    yield ""
    yield table(["<step", "planned", "measured", "difference"], step_cells(found))
    yield ""
    yield table(["<device", "ops", "busy, planned", "busy, measured", "difference"], device_rows(found.devices))
    yield ""
    yield table(["<peak memory of what ops make", "planned", "measured", "difference"], _memory_rows(found))


def _memory_rows(found: OnnxComparison) -> Iterator[tuple[str, str, str, str]]:
    for name, planned, measured in (
        ("as planned", found.planned_peak_bytes, found.measured_peak_bytes),
        (ALONE_IN_FILE, found.one_device_planned_peak_bytes, found.one_device_measured_peak_bytes),
    ):
        if planned is not None and measured is not None:
            yield name, format_bytes(planned), format_bytes(measured), difference(planned, measured)
    for name, measured in (
        ("ONNX Runtime's order, memory taken as needed", found.usual_order_peak_bytes),
        ("ONNX Runtime, memory taken in one piece", found.usual_peak_bytes),
    ):
        if measured is not None:
            yield name, "", format_bytes(measured), ""
