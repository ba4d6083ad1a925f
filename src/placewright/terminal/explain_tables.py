"""The output of `explain`."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType

from placewright.analysis.advice import advice, peak_words
from placewright.analysis.basis import basis_words
from placewright.analysis.explain import Explanation, GapExplanation, PathExplanation, PeakExplanation
from placewright.analysis.idle import IdleExplanation
from placewright.analysis.outcome import floor_words, verdict_words, weak_bound_words
from placewright.plans.record import Plan, Transfer
from placewright.problem.objective import format_objective, fullest_first
from placewright.support.quantities import counted, format_bytes, format_time_ns, share, shortened
from placewright.terminal.tables import heading, line, table

_MAX_PEAKS = 4
_MAX_GROUPS = 6
_MAX_STRETCHES = 8
_MAX_IDLE = 8
_LEAST_SHARE = 0.001
_KIND_NAMES = {"tensor": "activations", "copy": "copies", "resident": "residents", "workspace": "workspace"}


def explain_tables(plan: Plan, found: Explanation) -> Iterator[RenderableType]:
    order = fullest_first(plan.machine, [peak.peak_bytes for peak in found.peaks])
    fullest = sorted((found.peaks[device] for device in order), key=lambda peak: -peak.missing_bytes)
    for peak in fullest[:_MAX_PEAKS]:
        yield from _peak(plan, peak)
        yield ""
    if len(fullest) > _MAX_PEAKS:
        yield line(f"and {len(fullest) - _MAX_PEAKS} devices with lower peaks\n", "dim")
    yield from _path(plan, found.path)
    yield line(basis_words(plan.time_sources, plan.machine), "dim")
    yield ""
    yield from _idle(plan, found.idle)
    yield ""
    yield from _verdict(plan, found.gap)


def _peak(plan: Plan, peak: PeakExplanation) -> Iterator[RenderableType]:
    name = plan.machine.devices[peak.device].name
    if not peak.groups:
        yield heading(f"peak of {name}: nothing is held")
        return
    yield heading(f"peak of {name}: {format_bytes(peak.peak_bytes)}{_at(plan, peak)}")
    kinds = [f"{_KIND_NAMES[kind]} {share(size, peak.peak_bytes)}" for kind, size in _kinds(peak) if size]
    yield line(f"made of {', '.join(kinds)}; {_fits(plan, peak)}" if kinds else _fits(plan, peak))
    rows = [
        [
            shortened(group.module, 40),
            _KIND_NAMES[group.kind],
            f"{group.num_buffers:,}",
            format_bytes(group.size_bytes),
            share(group.size_bytes, peak.peak_bytes),
        ]
        for group in peak.groups[:_MAX_GROUPS]
    ]
    rest = peak.groups[_MAX_GROUPS:]
    if rest:
        size = sum(group.size_bytes for group in rest)
        count = sum(group.num_buffers for group in rest)
        others = counted(len(rest), "other group")
        rows.append([others, "", f"{count:,}", format_bytes(size), share(size, peak.peak_bytes)])
    yield table(["<alive then", "<kind", "buffers", "bytes", "share"], rows)


def _kinds(peak: PeakExplanation) -> list[tuple[str, int]]:
    return [(kind, peak.bytes_of(kind)) for kind in ("resident", "tensor", "copy", "workspace")]


def _at(plan: Plan, peak: PeakExplanation) -> str:
    if peak.op is None:
        return ", all of it residents"
    when = f" at {share(peak.time_ns, plan.metrics.step_time_ns)} of the step"
    if isinstance(peak.op, Transfer):
        return f"{when}, when {shortened(peak.op.tensor, 32)} arrives"
    return f"{when}, in {shortened(peak.op.name, 36)}"


def _fits(plan: Plan, peak: PeakExplanation) -> str:
    """Say how much memory is missing, or how much is left."""
    if peak.limit_bytes is None:
        return "there is no limit"
    if not peak.missing_bytes:
        return f"fits, {format_bytes(peak.limit_bytes - peak.peak_bytes)} to spare"
    over = share(peak.over_limit_ns, plan.metrics.step_time_ns)
    residents = peak.bytes_of("resident")
    if residents > peak.limit_bytes:
        return f"its residents alone exceed the limit of {format_bytes(peak.limit_bytes)}"
    return (
        f"over its limit of {format_bytes(peak.limit_bytes)} by {format_bytes(peak.missing_bytes)}, {over} of the time"
    )


def _path(plan: Plan, path: PathExplanation) -> Iterator[RenderableType]:
    step = plan.metrics.step_time_ns
    launched = f"{counted(path.num_launches, 'launch', 'launches')}, then " if path.launching_ns else ""
    steps = f"{counted(path.num_steps, 'step')}, {counted(path.num_device_changes, 'change')} of device"
    yield heading(f"critical path: {launched}{steps}")
    yield from map(line, _launching(plan, path))
    shares = {"computing": path.compute_ns, "transferring": path.transfer_ns, "waiting": path.waiting_ns}
    texts = [f"{what} {format_time_ns(time)} ({share(time, step)})" for what, time in shares.items()]
    yield line(f"{'then ' if path.launching_ns else ''}{', '.join(texts)}")
    rows = [
        [
            shortened(stretch.module, 40),
            _place(plan, stretch.device, stretch.destination),
            f"{stretch.num_steps:,}",
            format_time_ns(stretch.time_ns),
            share(stretch.time_ns, step),
        ]
        for stretch in path.stretches[:_MAX_STRETCHES]
    ]
    yield table(["<longest parts", "<where", "steps", "time", "of step"], rows)


def _launching(plan: Plan, path: PathExplanation) -> Iterator[str]:
    """Describe the launches before the first step of the path; where they take half of the step or more, say what would
    help."""
    if not path.launching_ns:
        return
    step = plan.metrics.step_time_ns
    host = "the host" if plan.machine.launch == "host-thread" else "the device's host thread"
    took = f"{counted(path.num_launches, 'launch', 'launches')} in {format_time_ns(path.launching_ns)}"
    yield f"{host} launches ops one after another: {took}, {share(path.launching_ns, step)} of the step"
    if 2 * path.launching_ns >= step:
        yield "fewer, larger ops would help, or CUDA graphs, which need no launches: --devices MACHINE@graphs"


def _place(plan: Plan, device: int, destination: int) -> str:
    names = [shortened(plan.machine.devices[index].name, 12) for index in (device, destination) if index >= 0]
    return " -> ".join(names)


def _idle(plan: Plan, idle: tuple[IdleExplanation, ...]) -> Iterator[RenderableType]:
    step = plan.metrics.step_time_ns
    yield heading("what each device does")
    shown = sorted(idle, key=lambda device: device.busy_ns)[:_MAX_IDLE]
    launched = any(device.launch_ns for device in idle)
    rows = [
        [
            plan.machine.devices[device.device].name,
            share(device.busy_ns, step),
            share(device.transfer_ns, step),
            share(device.others_ns, step),
            *([share(device.launch_ns, step)] if launched else []),
            share(device.end_ns, step),
            plan.machine.devices[device.waits_on[0][0]].name if device.waits_on else "",
        ]
        for device in sorted(shown, key=lambda device: device.device)
    ]
    launches = ["awaits launches"] if launched else []
    yield table(["<device", "computes", "awaits transfers", "awaits others", *launches, "done", "<mostly for"], rows)
    if len(idle) > _MAX_IDLE:
        yield line(f"the {_MAX_IDLE} idlest of {len(idle)} devices", "dim")


def _verdict(plan: Plan, gap: GapExplanation | None) -> Iterator[RenderableType]:
    """Say how far from optimal the plan may be; if it does not fit, whether another plan could, and what would help."""
    if gap is None:
        floor = floor_words(plan)
        yield heading(f"{verdict_words(plan)}: {floor}" if floor else verdict_words(plan))
        yield from map(line, (*peak_words(plan), *advice(plan)))
        return
    bound = format_objective(plan.objective, gap.bound)
    if gap.value == gap.bound:
        yield heading(f"optimal: the lower bound of {bound} is reached ({gap.reason})")
        return
    distance = gap.value - gap.bound
    above = format_objective(plan.objective, distance)
    yield heading(f"{above} above the lower bound of {bound} ({gap.reason}){':' if gap.parts else ''}")
    if words := weak_bound_words(plan):
        yield line(words, "dim")
    rows = [
        [cause, format_objective(plan.objective, amount), share(amount, distance)]
        for cause, amount in gap.parts
        if amount >= _LEAST_SHARE * distance
    ]
    if rows:
        yield table(["<", "", "of gap"], rows)
