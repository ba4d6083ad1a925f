"""Records that compare a plan with its run, and how well they agree on when ops start."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from placewright.plans.record import Plan, ScheduledOp
from placewright.support.quantities import signed_percent


@dataclass(frozen=True, kw_only=True)
class DeviceTimes:
    """One device of the plan.

    Attributes
    ----------
    device
        Its name.
    num_ops
        The number of ops it runs.
    planned_busy_ns, measured_busy_ns
        The time it computes in a step.
    """

    device: str
    num_ops: int
    planned_busy_ns: int
    measured_busy_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OpRun:
    """One op of the plan. Measured times are medians over steps, after the first op of the step started.

    Attributes
    ----------
    name, kind
        As in the graph.
    device
        Index of the plan's device that runs it.
    planned_start_ns, planned_finish_ns
        As planned.
    measured_start_ns, measured_finish_ns
        When it ran; only the plan's time includes views made for it beforehand and the gap between two ops.
    """

    name: str
    kind: str
    device: int
    planned_start_ns: int
    planned_finish_ns: int
    measured_start_ns: int
    measured_finish_ns: int

    @classmethod
    def of(cls, op: ScheduledOp, start_ns: int, finish_ns: int) -> OpRun:
        """The op with its planned and measured times."""
        return cls(
            name=op.name,
            kind=op.kind,
            device=op.device,
            planned_start_ns=op.start_ns,
            planned_finish_ns=op.finish_ns,
            measured_start_ns=start_ns,
            measured_finish_ns=finish_ns,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OpFallback:
    """An op that ran on the CPU since its device has no kernel for it.

    Attributes
    ----------
    op
        Its name.
    reason
        The device, and what PyTorch said.
    """

    op: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationRound:
    """One plan of a calibration, and the time of its steps.

    Attributes
    ----------
    planned_ns, measured_ns
        The time of a step.
    link_latency_ns
        The latency between two devices with which this plan was made; None for one device.
    kept
        Whether this is the plan that was kept.
    """

    planned_ns: int
    measured_ns: int
    link_latency_ns: int | None
    kept: bool


@dataclass(frozen=True, kw_only=True)
class RunComparison:
    """A plan compared with its run by PyTorch. Times are medians over several steps, taken in turn.

    Attributes
    ----------
    name
        The name of the graph.
    steps
        The number of measured steps of each sort.
    planned_ns, measured_ns
        The time of a step as planned.
    one_device_planned_ns, one_device_measured_ns
        The time of a step with all ops on the first device, in the order of the capture.
    measured_range_ns
        The fastest and the slowest of the steps behind `measured_ns`.
    devices
        The devices in the step as planned.
    planned_speedup, measured_speedup
        The speedup of the step as planned over all ops on one device.
    start_correlation
        The correlation between planned and measured start times of the ops; 1 where they are proportional.
    planned_peak_bytes, measured_peak_bytes
        The most memory in use in a step as planned; None for several devices, whose tensors lie in one memory.
    one_device_planned_peak_bytes, one_device_measured_peak_bytes
        The same for the step with all ops on the first device.
    ops
        Every op that the plan times and that ran, in its order.
    eager_one_device_ns
        The time of the module without a plan, each op on as many threads as one device has cores.
    eager_ns
        The time of the module without a plan, each op on as many threads as all devices together.
    torch_compile_ns
        The time of the module compiled by `torch.compile` with Inductor, on as many threads as all devices together;
        None where it was not run.
    one_device_range_ns, eager_range_ns
        The fastest and the slowest of the steps behind `one_device_measured_ns` and `eager_ns`.
    eager_peak_bytes
        The most memory in use by the module without a plan, inputs included.
    torch_compile_peak_bytes
        The most memory in use by the module compiled by `torch.compile`, inputs included; None where it was not run.
    rounds
        Plans that were made and run one after another until planned and measured agreed; none without calibration.
    fallbacks
        Ops that did not run on the devices of the plan.
    """

    name: str
    steps: int
    planned_ns: int
    measured_ns: int
    one_device_planned_ns: int
    one_device_measured_ns: int
    measured_range_ns: tuple[int, int]
    devices: tuple[DeviceTimes, ...]
    planned_speedup: float
    measured_speedup: float
    start_correlation: float
    planned_peak_bytes: int | None
    measured_peak_bytes: int | None
    one_device_planned_peak_bytes: int
    one_device_measured_peak_bytes: int
    ops: tuple[OpRun, ...]
    eager_one_device_ns: int
    eager_ns: int
    torch_compile_ns: int | None
    one_device_range_ns: tuple[int, int]
    eager_range_ns: tuple[int, int]
    eager_peak_bytes: int
    torch_compile_peak_bytes: int | None
    rounds: tuple[CalibrationRound, ...] = ()
    fallbacks: tuple[OpFallback, ...] = ()


def times_in_turn(ways: Sequence[Callable[[], Any]], steps: int, *, uncounted: int = 0) -> list[list[int]]:
    """The times of each way's steps in ns, the ways taken in turn. uncounted: calls before each one that counts."""
    taken: list[list[int]] = [[] for _ in ways]
    for step in range(steps + 1):
        for way, times in zip(ways, taken, strict=True):
            for _ in range(uncounted):
                way()
            began = time.perf_counter_ns()
            way()
            if step:  # the first one warms caches and allocators
                times.append(time.perf_counter_ns() - began)
    return taken


def device_times(plan: Plan, ops: Sequence[OpRun]) -> tuple[DeviceTimes, ...]:
    """Each device of a plan. ops: those that ran."""
    return tuple(
        DeviceTimes(
            device=device.name,
            num_ops=sum(op.device == index for op in ops),
            planned_busy_ns=plan.metrics.busy_ns[index],
            measured_busy_ns=sum(op.measured_finish_ns - op.measured_start_ns for op in ops if op.device == index),
        )
        for index, device in enumerate(plan.machine.devices)
    )


def start_correlation(ops: Sequence[OpRun]) -> float:
    """The correlation between planned and measured start times of ops that take time; 1 where nothing can differ."""
    counted = [op for op in ops if op.planned_finish_ns > op.planned_start_ns]
    planned, measured = [op.planned_start_ns for op in counted], [op.measured_start_ns for op in counted]
    if len(counted) < 2 or np.ptp(planned) == 0 or np.ptp(measured) == 0:
        return 1.0
    return float(np.corrcoef(planned, measured)[0, 1])


#: From this ratio on a factor is clearer than percent.
_MANY_TIMES = 10
_ALONE = "on the first device alone, in captured order"


def step_rows(run: RunComparison) -> Iterator[tuple[str, int | None, int]]:
    """Yields each way to run a step: its name, planned and measured time; None where nothing was planned."""
    yield "as planned", run.planned_ns, run.measured_ns
    yield _ALONE, run.one_device_planned_ns, run.one_device_measured_ns
    yield "PyTorch, an op on one device's cores", None, run.eager_one_device_ns
    yield "PyTorch, an op on all cores", None, run.eager_ns
    if run.torch_compile_ns is not None:
        yield "torch.compile, on all cores", None, run.torch_compile_ns


def peak_rows(run: RunComparison) -> Iterator[tuple[str, int | None, int]]:
    """Yields the peak memory of each way that has one: name, planned and measured bytes; None where nothing was
    planned."""
    ways = (
        ("as planned", run.planned_peak_bytes, run.measured_peak_bytes),
        (_ALONE, run.one_device_planned_peak_bytes, run.one_device_measured_peak_bytes),
        ("PyTorch", None, run.eager_peak_bytes),
        ("torch.compile", None, run.torch_compile_peak_bytes),
    )
    yield from ((name, planned, measured) for name, planned, measured in ways if measured is not None)


def kind_rows(run: RunComparison) -> Iterator[tuple[str, int, int, int]]:
    """Yields each kind of op, the longest first: its name, number of ops, planned and measured time."""
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
    """The difference of measured from planned in percent, or as a factor if large; empty where nothing was planned."""
    if not planned:
        return ""
    ratio = measured / planned
    return signed_percent(ratio - 1) if ratio < _MANY_TIMES else f"{ratio:,.0f} times"
