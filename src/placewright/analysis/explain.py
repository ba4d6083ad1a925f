"""Explanations of a plan's cost: the contents of its peaks, the waits on its critical path, idle devices, and the
causes of the distance to the lower bound."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from placewright.analysis.critical_path import Step, critical_path, launches_of, runs_of, shares_of
from placewright.analysis.idle import IdleExplanation, explain_idle
from placewright.analysis.memory_events import alive_at_peak
from placewright.analysis.module_pattern import layer_of_ops, module_of_parameter, module_pattern
from placewright.plans.record import Buffer, BufferKind, Plan, ScheduledOp, Transfer
from placewright.problem.objective import fullest_first


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferGroup:
    """Buffers of one kind from one module, repeated layers taken together (see `layer_of_ops`).

    Attributes
    ----------
    module
        Path of the module.
    kind
        As in a plan's buffers.
    num_buffers
        Number of buffers.
    size_bytes
        The sum of their sizes.
    """

    module: str
    kind: BufferKind
    num_buffers: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PeakExplanation:
    """The moment at which a device holds the most memory.

    Attributes
    ----------
    device
        Index of the device.
    peak_bytes
        The memory held at that moment.
    limit_bytes
        The device's limit; None for none.
    time_ns
        The time of the peak.
    op
        The step that brings the peak; None when the residents alone make it.
    groups
        The buffers alive then, largest group first; their sizes add up to `peak_bytes`.
    missing_bytes
        Peak minus limit where positive.
    over_limit_ns
        The time during which the device is over its limit.
    """

    device: int
    peak_bytes: int
    limit_bytes: int | None
    time_ns: int
    op: Step | None
    groups: tuple[BufferGroup, ...]
    missing_bytes: int
    over_limit_ns: int

    def bytes_of(self, kind: BufferKind) -> int:
        return sum(group.size_bytes for group in self.groups if group.kind == kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Steps of one sort on the critical path, taken together.

    Attributes
    ----------
    what
        "compute" or "transfer".
    module
        The module of the ops, or of the producer of the transferred tensor.
    device
        The device that computes or sends.
    destination
        The device that receives; -1 for computing.
    num_steps
        Number of steps.
    time_ns
        The sum of their times.
    """

    what: str
    module: str
    device: int
    destination: int
    num_steps: int
    time_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PathExplanation:
    """The chain of steps that decides the step time; the times add up to it.

    Attributes
    ----------
    compute_ns, transfer_ns, waiting_ns
        Time that the chain spends in ops, in transfers and waiting.
    launching_ns
        Time until the host thread has launched the first step of the chain.
    num_launches
        Number of launches in that time, that of the first step included.
    num_steps
        Number of steps in the chain.
    num_device_changes
        Number of times the chain goes to another device.
    stretches
        The stretches, longest first.
    """

    compute_ns: int
    transfer_ns: int
    waiting_ns: int
    launching_ns: int
    num_launches: int
    num_steps: int
    num_device_changes: int
    stretches: tuple[Stretch, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GapExplanation:
    """The causes of the distance between the objective and its lower bound.

    Attributes
    ----------
    value
        Value of the objective, in ns or bytes.
    bound
        Its lower bound.
    reason
        The name of that bound.
    parts
        Pairs of cause and ns or bytes, none negative, largest first. They add up to value - bound. Empty where the
        causes do not explain the bound (a chain shorter than the work divided over the devices, say).
        Between equal devices the causes of a bound by work are averages over the devices; otherwise they lie on the
        critical path. The causes of peak memory are the contents of the fullest device at its peak.
    """

    value: int
    bound: int
    reason: str
    parts: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """An explanation of a plan's cost.

    Attributes
    ----------
    peaks, idle
        One per device.
    path
        The critical path.
    gap
        The causes of the distance to the lower bound; None for an infeasible plan, whose objective may lie below what
        any feasible plan can reach.
    """

    peaks: tuple[PeakExplanation, ...]
    path: PathExplanation
    idle: tuple[IdleExplanation, ...]
    gap: GapExplanation | None


def explain(plan: Plan) -> Explanation:
    """Explain a plan by its peaks, critical path, idle time and gap."""
    peaks = tuple(explain_peak(plan, device) for device in range(plan.machine.num_devices))
    path, idle = explain_path(plan), explain_idle(plan)
    gap = None if plan.status == "infeasible" else explain_gap(plan, peaks, path, idle)
    return Explanation(peaks=peaks, path=path, idle=idle, gap=gap)


def explain_gap(
    plan: Plan, peaks: Sequence[PeakExplanation], path: PathExplanation, idle: Sequence[IdleExplanation]
) -> GapExplanation:
    """Explain the distance to the lower bound, by cause where the causes add up."""
    if plan.bound_reason == "proven by the solver":
        parts = []
    else:
        parts = _memory_gap(plan, peaks) if plan.objective == "peak-memory" else _time_gap(plan, path, idle)
    sound = all(amount >= 0 for _, amount in parts)
    causes = sorted(((cause, amount) for cause, amount in parts if amount), key=lambda part: -part[1])
    return GapExplanation(
        value=plan.metrics.objective_value(plan.objective),
        bound=plan.lower_bound,
        reason=plan.bound_reason,
        parts=tuple(causes) if sound else (),
    )


def explain_peak(plan: Plan, device: int) -> PeakExplanation:
    """Describe the contents of a device at its peak, and how far and how long it is over its limit."""
    time_ns, alive = alive_at_peak(plan, device)
    peak, limit = plan.metrics.peak_bytes[device], plan.memory_limits_bytes[device]
    return PeakExplanation(
        device=device,
        peak_bytes=peak,
        limit_bytes=limit,
        time_ns=time_ns,
        op=_step_that_allocates(plan, alive),
        groups=_grouped(plan, alive),
        missing_bytes=0 if limit is None else max(0, peak - limit),
        over_limit_ns=0 if limit is None else _over_limit_ns(plan, device, limit),
    )


def _step_that_allocates(plan: Plan, alive: Sequence[Buffer]) -> Step | None:
    """Find the step whose start allocates the last of the buffers, which are in order of allocation."""
    moving = [buffer for buffer in alive if buffer.kind != "resident"]
    if not moving:
        return None
    last = moving[-1]
    if last.kind == "copy":
        return next(t for t in plan.transfers if (t.tensor, t.destination) == (last.name, last.device))
    return next(op for op in plan.ops if op.name == last.op)


def _grouped(plan: Plan, buffers: Iterable[Buffer]) -> tuple[BufferGroup, ...]:
    layer_of = layer_of_ops(plan.ops)
    modules = {op.module for op in plan.ops}
    count: Counter[tuple[str, BufferKind]] = Counter()
    size: Counter[tuple[str, BufferKind]] = Counter()
    for buffer in buffers:
        if buffer.kind == "resident":
            module = module_pattern(module_of_parameter(buffer.name, modules))
        else:
            module = layer_of[buffer.op]
        count[module, buffer.kind] += 1
        size[module, buffer.kind] += buffer.size_bytes
    groups = [
        BufferGroup(module=module, kind=kind, num_buffers=count[module, kind], size_bytes=total)
        for (module, kind), total in size.items()
    ]
    return tuple(sorted(groups, key=lambda group: (-group.size_bytes, group.module, group.kind)))


def _over_limit_ns(plan: Plan, device: int, limit: int) -> int:
    curve = plan.memory_curves[device]
    ends = [*curve.time_ns[1:], plan.metrics.step_time_ns]
    spans = zip(curve.time_ns, ends, curve.bytes_in_use, strict=True)
    return sum(end - begin for begin, end, in_use in spans if in_use > limit)


def explain_path(plan: Plan) -> PathExplanation:
    """Divide the step time along the critical path by sort of step and by module."""
    path = critical_path(plan)
    shares = shares_of(runs_of(path))
    layer_of = layer_of_ops(plan.ops)
    steps: defaultdict[tuple[str, str, int, int], list[Step]] = defaultdict(list)
    for step in path:
        if isinstance(step, Transfer):
            module = layer_of.get(step.producer, step.producer)
            steps["transfer", module, step.source, step.destination].append(step)
        else:
            steps["compute", layer_of[step.name], step.device, -1].append(step)
    stretches = [
        Stretch(
            what=what,
            module=module,
            device=device,
            destination=destination,
            num_steps=len(group),
            time_ns=sum(step.finish_ns - step.start_ns for step in group),
        )
        for (what, module, device, destination), group in steps.items()
    ]
    devices = [step.device for step in path if isinstance(step, ScheduledOp)]
    return PathExplanation(
        compute_ns=shares["compute"],
        transfer_ns=shares["transfer"],
        waiting_ns=shares["waiting"],
        launching_ns=shares["launching"],
        num_launches=_launches_before(plan, path[0]) if shares["launching"] else 0,
        num_steps=len(path),
        num_device_changes=sum(a != b for a, b in pairwise(devices)),
        stretches=tuple(sorted(stretches, key=lambda stretch: -stretch.time_ns)),
    )


def _launches_before(plan: Plan, step: Step) -> int:
    """Count the launches by the step's host thread, up to and including that of the step."""
    made = launches_of(plan)
    own = next(launch for launch in made if launch.step is step)
    return sum(launch.host == own.host and launch.finish_ns <= own.finish_ns for launch in made)


def _time_gap(plan: Plan, path: PathExplanation, idle: Sequence[IdleExplanation]) -> list[tuple[str, int]]:
    gap = plan.metrics.step_time_ns - plan.lower_bound
    kinds = {device.kind for device in plan.machine.devices}
    if plan.bound_reason == "work divided over all devices" and len(kinds) == 1:
        parts = [
            ("devices wait for transfers", sum(device.transfer_ns for device in idle) // len(idle)),
            ("devices wait for one another", sum(device.others_ns for device in idle) // len(idle)),
            ("devices wait for launches", sum(device.launch_ns for device in idle) // len(idle)),
            ("devices have nothing left to do at the end", sum(device.end_ns for device in idle) // len(idle)),
        ]
        rest = "ops that run on a slower device"
    else:
        parts = [
            ("transfers on the critical path", path.transfer_ns),
            ("waits on the critical path", path.waiting_ns),
            ("launches on the critical path", path.launching_ns),
        ]
        made_again = plan.bound_reason == "tensors that must be dropped and made again"
        rest = "ops that run again" if made_again else "ops that queue for a device or run on a slower one"
    return [*parts, (rest, gap - sum(amount for _, amount in parts))]


def _memory_gap(plan: Plan, peaks: Sequence[PeakExplanation]) -> list[tuple[str, int]]:
    fullest = peaks[fullest_first(plan.machine, [peak.peak_bytes for peak in peaks])[0]]
    gap = plan.metrics.peak_memory_bytes - plan.lower_bound
    if plan.bound_reason != "parameters and outputs spread over all devices":
        return [("held for later ops at the peak", gap)]
    parts = [
        ("tensors between ops", fullest.bytes_of("tensor")),
        ("copies from other devices", fullest.bytes_of("copy")),
        ("workspace", fullest.bytes_of("workspace")),
    ]
    return [*parts, ("parameters beyond an even share", gap - sum(amount for _, amount in parts))]
