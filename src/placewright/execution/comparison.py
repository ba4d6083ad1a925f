"""A plan beside its run: the records, and how far they agree on when ops start."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from placewright.plans.record import ScheduledOp


@dataclass(frozen=True, kw_only=True)
class DeviceTimes:
    """One device of the plan.

    Attributes
    ----------
    device
        Its name.
    num_ops
        How many ops it runs.
    planned_busy_ns, measured_busy_ns
        How long it computes in a step.
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
        When it ran; views that are made for it beforehand and what passes between two ops are in the plan's time alone.
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
        """An op as planned, and as measured."""
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
    """One plan, and how long its steps took.

    Attributes
    ----------
    planned_ns, measured_ns
        Of a step.
    link_latency_ns
        Between two devices, as this plan was made; None for one device.
    kept
        Whether this is the plan that was kept.
    """

    planned_ns: int
    measured_ns: int
    link_latency_ns: int | None
    kept: bool


@dataclass(frozen=True, kw_only=True)
class RunComparison:
    """A plan beside its run. Times are medians over several steps, taken in turn.

    Attributes
    ----------
    name
        Of the graph.
    steps
        How many steps of each sort were measured.
    planned_ns, measured_ns
        A step as planned.
    one_device_planned_ns, one_device_measured_ns
        A step with all ops on the first device, in captured order.
    eager_one_device_ns
        The module without a plan, each op on as many threads as one device has cores.
    eager_ns
        The module without a plan, each op on as many threads as all devices together.
    torch_compile_ns
        What `torch.compile` makes of the module with Inductor, on as many threads as all devices together; None where
        it was not run.
    measured_range_ns, one_device_range_ns, eager_range_ns
        The quickest and the slowest of the steps behind `measured_ns`, `one_device_measured_ns` and `eager_ns`.
    devices
        Of the step as planned.
    planned_speedup, measured_speedup
        Of the step as planned against all ops on one device.
    start_correlation
        Between planned and measured start times of the ops; 1 where all is in proportion.
    planned_peak_bytes, measured_peak_bytes
        The most memory in use in a step as planned; None for several devices, whose tensors lie in one memory.
    one_device_planned_peak_bytes, one_device_measured_peak_bytes
        Of a step with all ops on the first device, in captured order.
    eager_peak_bytes
        Of the module without a plan, inputs included.
    torch_compile_peak_bytes
        Of what `torch.compile` makes of the module, inputs included; None where it was not run.
    ops
        Every op that the plan times, in its order.
    rounds
        Plans that were made and run one after another until planned and measured agreed; none without calibration.
    fallbacks
        Ops that did not run where the plan put them.
    """

    name: str
    steps: int
    planned_ns: int
    measured_ns: int
    one_device_planned_ns: int
    one_device_measured_ns: int
    eager_one_device_ns: int
    eager_ns: int
    torch_compile_ns: int | None
    measured_range_ns: tuple[int, int]
    one_device_range_ns: tuple[int, int]
    eager_range_ns: tuple[int, int]
    devices: tuple[DeviceTimes, ...]
    planned_speedup: float
    measured_speedup: float
    start_correlation: float
    planned_peak_bytes: int | None
    measured_peak_bytes: int | None
    one_device_planned_peak_bytes: int
    one_device_measured_peak_bytes: int
    eager_peak_bytes: int
    torch_compile_peak_bytes: int | None
    ops: tuple[OpRun, ...]
    rounds: tuple[CalibrationRound, ...] = ()
    fallbacks: tuple[OpFallback, ...] = ()


@dataclass(frozen=True, kw_only=True)
class OnnxComparison:
    """A plan beside its run by ONNX Runtime. Times are medians over several steps, taken in turn.

    Attributes
    ----------
    name
        Of the graph.
    steps
        How many steps of each sort were measured.
    planned_ns, measured_ns
        A step as planned.
    one_device_planned_ns, one_device_measured_ns
        A step with all ops on the first device, in the order of the optimised file.
    usual_one_device_ns
        ONNX Runtime without a plan, each op on as many threads as one device has cores.
    usual_ns
        ONNX Runtime without a plan, each op on as many threads as all devices together.
    parallel_ns
        ONNX Runtime's parallel mode without a plan: as many ops at once as there are devices, each on as many threads
        as one device has cores; None for one device.
    measured_range_ns
        The quickest and the slowest of the steps behind `measured_ns`.
    devices
        Of the step as planned.
    num_parts
        Into how many sessions the plan is divided; a device has a new one behind each transfer.
    planned_speedup, measured_speedup
        Of the step as planned against all ops on one device.
    start_correlation
        Between planned and measured start times of the ops; 1 where all is in proportion.
    ran_as_planned
        Whether ONNX Runtime's profile shows every op on its device, in the order of the plan.
    difference
        Where it first does not; None where it does.
    same_outputs
        Whether outputs are those of ONNX Runtime without a plan, bit by bit.
    planned_peak_bytes, measured_peak_bytes
        The most memory in use in a step as planned for what ops make and need while they run, without weights and
        inputs; None for several devices, whose tensors lie in one memory.
    one_device_planned_peak_bytes, one_device_measured_peak_bytes
        Of a step with all ops on the first device, in the order of the optimised file.
    usual_order_peak_bytes
        In ONNX Runtime's own order, with memory taken as it is needed.
    usual_peak_bytes
        Of ONNX Runtime without a plan, which takes the memory of a step in one piece.
    ops
        Every op of the plan that ran, in its order.
    """

    name: str
    steps: int
    planned_ns: int
    measured_ns: int
    one_device_planned_ns: int
    one_device_measured_ns: int
    usual_one_device_ns: int
    usual_ns: int
    parallel_ns: int | None
    measured_range_ns: tuple[int, int]
    devices: tuple[DeviceTimes, ...]
    num_parts: int
    planned_speedup: float
    measured_speedup: float
    start_correlation: float
    ran_as_planned: bool
    difference: str | None
    same_outputs: bool
    planned_peak_bytes: int | None
    measured_peak_bytes: int | None
    one_device_planned_peak_bytes: int
    one_device_measured_peak_bytes: int | None
    usual_order_peak_bytes: int | None
    usual_peak_bytes: int | None
    ops: tuple[OpRun, ...]


def correlation(planned: Sequence[float], measured: Sequence[float]) -> float:
    """Of the start times of the same ops; 1 where there is nothing that could differ."""
    if len(planned) < 2 or np.ptp(planned) == 0 or np.ptp(measured) == 0:
        return 1.0
    return float(np.corrcoef(planned, measured)[0, 1])
