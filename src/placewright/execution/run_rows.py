"""A run in rows, planned and measured: what the terminal and the report show alike."""

from __future__ import annotations

from collections.abc import Iterator

from placewright.execution.comparison import OnnxComparison, RunComparison

#: What a plan is shown beside.
AnyRun = RunComparison | OnnxComparison

#: From here on a number of times says more than percent.
_MANY_TIMES = 10


def step_rows(run: AnyRun) -> Iterator[tuple[str, int | None, int]]:
    """Each way to run a step: its name, planned and measured time; None where nothing was planned."""
    yield "as planned", run.planned_ns, run.measured_ns
    yield _alone(run), run.one_device_planned_ns, run.one_device_measured_ns
    if isinstance(run, OnnxComparison):
        yield "ONNX Runtime, an op on one device's cores", None, run.usual_one_device_ns
        yield "ONNX Runtime, an op on all cores", None, run.usual_ns
        if run.parallel_ns is not None:
            yield "ONNX Runtime's parallel mode", None, run.parallel_ns
        return
    yield "PyTorch, an op on one device's cores", None, run.eager_one_device_ns
    yield "PyTorch, an op on all cores", None, run.eager_ns
    if run.torch_compile_ns is not None:
        yield "torch.compile, on all cores", None, run.torch_compile_ns


def peak_rows(run: AnyRun) -> Iterator[tuple[str, int | None, int]]:
    """Peak memory of each way that has one: its name, planned and measured; None where nothing was planned."""
    ways: list[tuple[str, int | None, int | None]] = [
        ("as planned", run.planned_peak_bytes, run.measured_peak_bytes),
        (_alone(run), run.one_device_planned_peak_bytes, run.one_device_measured_peak_bytes),
    ]
    if isinstance(run, OnnxComparison):
        ways.append(("ONNX Runtime's order, memory taken as needed", None, run.usual_order_peak_bytes))
        ways.append(("ONNX Runtime, memory taken in one piece", None, run.usual_peak_bytes))
    else:
        ways.append(("PyTorch", None, run.eager_peak_bytes))
        ways.append(("torch.compile", None, run.torch_compile_peak_bytes))
    yield from ((name, planned, measured) for name, planned, measured in ways if measured is not None)


def peaks_of(run: AnyRun) -> str:
    """What the peaks of a run are of."""
    return "peak memory of what ops make" if isinstance(run, OnnxComparison) else "peak memory"


def _alone(run: AnyRun) -> str:
    order = "the file's" if isinstance(run, OnnxComparison) else "captured"
    return f"on the first device alone, in {order} order"


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
