"""What a run with ONNX Runtime is compared with: the record."""

from __future__ import annotations

from dataclasses import dataclass

from placewright.execution.comparison import DeviceTimes


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
    """

    name: str
    steps: int
    planned_ns: int
    measured_ns: int
    one_device_planned_ns: int
    one_device_measured_ns: int
    usual_one_device_ns: int
    usual_ns: int
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
