"""Made-up runs of plans: every op starts twice as late and takes twice as long as planned."""

from __future__ import annotations

from placewright.execution.comparison import DeviceTimes, OpRun, RunComparison
from placewright.plans.record import Plan


def slow_run(plan: Plan) -> RunComparison:
    step = plan.step_time_ns
    return RunComparison(
        name=plan.graph_name,
        steps=5,
        planned_ns=step,
        measured_ns=2 * step,
        one_device_planned_ns=2 * step,
        one_device_measured_ns=3 * step,
        eager_one_device_ns=3 * step,
        eager_ns=4 * step,
        torch_compile_ns=None,
        measured_range_ns=(2 * step, 5 * step),
        one_device_range_ns=(3 * step, 3 * step),
        eager_range_ns=(4 * step, 4 * step),
        devices=tuple(
            DeviceTimes(
                device=device.name,
                num_ops=sum(op.device == index for op in plan.ops),
                planned_busy_ns=plan.metrics.busy_ns[index],
                measured_busy_ns=2 * plan.metrics.busy_ns[index],
            )
            for index, device in enumerate(plan.machine.devices)
        ),
        planned_speedup=2.0,
        measured_speedup=1.5,
        start_correlation=0.987,
        planned_peak_bytes=None,
        measured_peak_bytes=None,
        one_device_planned_peak_bytes=2**20,
        one_device_measured_peak_bytes=2**20,
        eager_peak_bytes=2**21,
        torch_compile_peak_bytes=None,
        ops=tuple(
            OpRun(
                name=op.name,
                kind=op.kind,
                device=op.device,
                planned_start_ns=op.start_ns,
                planned_finish_ns=op.finish_ns,
                measured_start_ns=2 * op.start_ns,
                measured_finish_ns=2 * op.finish_ns,
            )
            for op in plan.ops
        ),
    )
