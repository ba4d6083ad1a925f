"""A run in rows, planned and measured: what the terminal and the report show alike."""

from __future__ import annotations

from collections.abc import Iterator

from placewright.execution.comparison import OnnxComparison, RunComparison

#: What a plan is shown beside.
AnyRun = RunComparison | OnnxComparison

#: How an ONNX model runs on one device.
ALONE_IN_FILE = "on the first device alone, in the file's order"
#: From here on a number of times says more than percent.
_MANY_TIMES = 10


def step_rows(run: AnyRun) -> Iterator[tuple[str, int | None, int]]:
    """Each way to run a step: its name, planned and measured time; None where nothing was planned."""
    yield "as planned", run.planned_ns, run.measured_ns
    if isinstance(run, OnnxComparison):
        yield ALONE_IN_FILE, run.one_device_planned_ns, run.one_device_measured_ns
        yield "ONNX Runtime, an op on one device's cores", None, run.usual_one_device_ns
        yield "ONNX Runtime, an op on all cores", None, run.usual_ns
        if run.parallel_ns is not None:
            yield "ONNX Runtime's parallel mode", None, run.parallel_ns
        return
    yield "on the first device alone, in captured order", run.one_device_planned_ns, run.one_device_measured_ns
    yield "PyTorch, an op on one device's cores", None, run.eager_one_device_ns
    yield "PyTorch, an op on all cores", None, run.eager_ns
    if run.torch_compile_ns is not None:
        yield "torch.compile, on all cores", None, run.torch_compile_ns


def kind_rows(run: AnyRun) -> Iterator[tuple[str, int, int, int]]:
    """Each kind of op, the longest first: how many there are, and how long they take."""
    kinds: dict[str, list[int]] = {}
    for op in run.ops:
        if op.kind != "input":
            sums = kinds.setdefault(op.kind, [0, 0, 0])
            sums[0] += 1
            sums[1] += op.planned_finish_ns - op.planned_start_ns
            sums[2] += op.measured_finish_ns - op.measured_start_ns
    for kind, (count, planned, measured) in sorted(kinds.items(), key=lambda entry: -entry[1][2]):
        yield kind, count, planned, measured


def difference(planned: int, measured: int) -> str:
    """By how much more or less was measured, in percent, or how many times as much; empty where nothing was planned."""
    if not planned:
        return ""
    ratio = measured / planned
    return f"{ratio - 1:+.1%}" if ratio < _MANY_TIMES else f"{ratio:,.0f} times"
