"""The critical path: the chain of steps that decides the step time, followed back from the last finish along what each
step waited for; and the launches by host threads that steps wait for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from placewright.plans.record import WAITS_FOR_LAUNCH, Plan, ScheduledOp, Transfer


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """The launch of one step. device: the one it is launched on. host: the thread that launches it, as in
    `Machine.hosts`."""

    step: Step
    device: int
    host: int
    start_ns: int
    finish_ns: int


def launches_of(plan: Plan) -> list[Launch]:
    """List the launches in the order of the plan. A host begins at 0 and never waits; steps that take no time are not
    launched."""
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


Step = ScheduledOp | Transfer


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Successive steps of the critical path on one device or one link, a wait between steps, or the launches of a host
    thread up to that of the next step.

    what: "compute", "transfer", "waiting" or "launching". where: device, or source of the link. destination: -1 except
    for links. steps: none for a wait or launches. busy_ns: sum of the steps' times, or the length of the wait or
    launches.
    """

    what: str
    where: int
    destination: int
    steps: tuple[Step, ...]
    start_ns: int
    finish_ns: int
    busy_ns: int


def critical_path(plan: Plan) -> list[Step]:
    """List the steps from the first to the one that finishes last; among equal finishes, the latest in the order. The
    first step starts at 0, or when its host thread, busy from 0 on, has launched it."""
    every: list[Step] = [*plan.ops, *plan.transfers]
    steps = {step.position: step for step in every}
    step = max(every, key=lambda step: (step.finish_ns, step.position), default=None)
    path: list[Step] = []
    while step is not None and len(path) < len(steps):
        path.append(step)
        step = steps.get(step.waits_for)
    return path[::-1]


def runs_of(path: Sequence[Step]) -> list[Run]:
    """Divide the path into runs on one device or link. A gap between two steps is a run of waiting; a gap before a step
    that waited for its launch is a run of launching."""
    runs: list[Run] = []
    gathered: list[Step] = []
    finish = 0
    for step in path:
        if gathered and (step.start_ns > finish or _place(step) != _place(gathered[-1])):
            runs.append(_run(gathered))
            gathered = []
        if step.start_ns > finish:
            what = "launching" if step.waits_for == WAITS_FOR_LAUNCH else "waiting"
            runs.append(_without_steps(what, _place(step)[1], finish, step.start_ns))
        gathered.append(step)
        finish = step.finish_ns
    return [*runs, _run(gathered)] if gathered else runs


def shares_of(runs: Sequence[Run]) -> dict[str, int]:
    """Sum up the nanoseconds of the path spent in compute, transfer, waiting and launching."""
    shares = {"compute": 0, "transfer": 0, "waiting": 0, "launching": 0}
    for run in runs:
        shares[run.what] += run.busy_ns
    return shares


def _place(step: Step) -> tuple[str, int, int]:
    if isinstance(step, Transfer):
        return "transfer", step.source, step.destination
    return "compute", step.device, -1


def _run(steps: Sequence[Step]) -> Run:
    what, where, destination = _place(steps[0])
    return Run(
        what=what,
        where=where,
        destination=destination,
        steps=tuple(steps),
        start_ns=steps[0].start_ns,
        finish_ns=steps[-1].finish_ns,
        busy_ns=sum(step.finish_ns - step.start_ns for step in steps),
    )


def _without_steps(what: str, where: int, start_ns: int, finish_ns: int) -> Run:
    return Run(
        what=what,
        where=where,
        destination=-1,
        steps=(),
        start_ns=start_ns,
        finish_ns=finish_ns,
        busy_ns=finish_ns - start_ns,
    )
