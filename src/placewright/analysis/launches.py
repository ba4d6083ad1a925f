"""What the host threads do during a step: they launch the work of the devices, one op or transfer after the other."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from placewright.analysis.critical_path import Step
from placewright.plans.record import Plan, Transfer


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """A step while it is launched. device: the one it is launched on. host: the thread that does it, as in
    `Machine.hosts`."""

    step: Step
    device: int
    host: int
    start_ns: int
    finish_ns: int


def launches_of(plan: Plan) -> list[Launch]:
    """In the order of the plan. A host begins at 0 and never waits; what takes no time is not launched."""
    machine = plan.machine
    hosts = machine.hosts
    clock: defaultdict[int, int] = defaultdict(int)
    made: list[Launch] = []
    steps: list[Step] = [*plan.ops, *plan.transfers]
    for step in sorted(steps, key=lambda step: step.position):
        if isinstance(step, Transfer):
            device = machine.launcher(step.source, step.destination)
        else:
            device = step.device if hosts[step.device] >= 0 else -1
        if device < 0 or step.start_ns == step.finish_ns:
            continue
        host = hosts[device]
        start = clock[host]
        clock[host] += machine.devices[device].launch_overhead_ns
        made.append(Launch(step=step, device=device, host=host, start_ns=start, finish_ns=clock[host]))
    return made
