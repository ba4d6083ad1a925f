"""The output of `explain --op`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType

from placewright.analysis.op_explanation import ModuleExplanation, OpExplanation
from placewright.analysis.relocation import Alternative
from placewright.analysis.rerun_explanation import RerunExplanation
from placewright.plans.record import WAITS_FOR_LAUNCH, Plan
from placewright.support.quantities import change, counted, format_bytes, format_time_ns, share, shortened
from placewright.terminal.tables import heading, line, table

_MAX_INPUTS = 8
_MAX_NAMES = 3


def op_tables(plan: Plan, found: OpExplanation | ModuleExplanation) -> Iterator[RenderableType]:
    return _module_tables(plan, found) if isinstance(found, ModuleExplanation) else _op_tables(plan, found)


def _op_tables(plan: Plan, found: OpExplanation) -> Iterator[RenderableType]:
    op, devices = found.op, plan.machine.devices
    where = devices[op.device].name
    took = format_time_ns(op.finish_ns - op.start_ns)
    if found.view:
        told = "takes no time and is where this op is"
        yield line(f"{shortened(found.view, 40)} is a view of what {shortened(op.name, 40)} makes; it {told}:")
    yield heading(f"{shortened(op.name, 48)} on {where}: {took} from {format_time_ns(op.start_ns)}")
    facts = [op.kind, op.module, op.phase, op.source]
    yield line(", ".join(shortened(fact, 40) for fact in facts if fact))
    yield from (line(rule) for rule in found.constraints)
    yield from _moved_with(found.group)
    waited = f"; it waited for {shortened(found.waited_for, 40)}" if found.waited_for else ""
    waited = "; it waited for its launch" if op.waits_for == WAITS_FOR_LAUNCH else waited
    yield line(f"{where} was free from {format_time_ns(found.device_free_ns)}{waited}")
    yield from _inputs(plan, found)
    for rerun in found.reruns:
        yield ""
        yield from (line(sentence) for sentence in rerun_words(plan, rerun))
    yield ""
    yield from _alternatives(plan, found.alternatives, op.device)


def rerun_words(plan: Plan, rerun: RerunExplanation) -> Iterator[str]:
    """Describe a rerun in a sentence each: its purpose, its cost, and the cost of leaving it out."""
    readers = ", ".join(f"'{shortened(name, 32)}'" for name in rerun.readers[:_MAX_NAMES])
    more = f" and {len(rerun.readers) - _MAX_NAMES:,} more" if len(rerun.readers) > _MAX_NAMES else ""
    # The op that comes next may be another rerun, followed by the reader.
    where = f"before '{shortened(rerun.before, 32)}'"
    read = f", for {readers}{more}" if rerun.readers and set(rerun.readers) != {rerun.before} else ""
    yield f"'{shortened(rerun.name, 40)}' runs it again {where}{read}; that takes {format_time_ns(rerun.time_ns)}."
    tensors = ", ".join(f"'{shortened(name, 32)}'" for name in rerun.tensors[:_MAX_NAMES])
    are = "is" if len(rerun.tensors) == 1 else "are"
    size, gone = format_bytes(rerun.size_bytes), format_time_ns(rerun.not_held_ns)
    until = f"from the end of '{shortened(rerun.held_until, 32)}' on"
    yield f"{tensors}, {size}, {are} not held {until}, over {counted(rerun.num_ops, 'op')} and {gone}."
    peak = plan.metrics.peak_memory_bytes
    more_bytes, less_time = rerun.peak_bytes_without - peak, plan.step_time_ns - rerun.step_time_ns_without
    told = f"the peak would be {format_bytes(rerun.peak_bytes_without)}, "
    if more_bytes:
        told += f"{format_bytes(abs(more_bytes))} {'more' if more_bytes > 0 else 'less'}"
    else:
        told += "the same"
    if rerun.bytes_over_limit_without:
        told += f" and {format_bytes(rerun.bytes_over_limit_without)} over the limit"
    time = "no shorter" if less_time <= 0 else f"{format_time_ns(less_time)} shorter"
    yield f"Without this rerun {told}, and the step {time}."


def _module_tables(plan: Plan, found: ModuleExplanation) -> Iterator[RenderableType]:
    devices, step = plan.machine.devices, plan.step_time_ns
    total = sum(found.time_ns)
    yield heading(f"{shortened(found.module, 48)}: {counted(sum(found.num_ops), 'op')}, {format_time_ns(total)}")
    parts = [
        f"{counted(count, 'op')} on {shortened(device.name, 20)} ({format_time_ns(time)})"
        for device, count, time in zip(devices, found.num_ops, found.time_ns, strict=True)
        if count
    ]
    yield line(", ".join(parts))
    yield from _moved_with(found.group)
    rows = [
        [
            shortened(op.name, 36),
            op.kind,
            shortened(devices[op.device].name, 12),
            format_time_ns(op.start_ns),
            format_time_ns(op.finish_ns - op.start_ns),
            share(op.finish_ns - op.start_ns, step),
        ]
        for op in found.longest
    ]
    yield ""
    yield table(["<its longest ops", "<kind", "<on", "starts", "takes", "of step"], rows)
    yield ""
    used = [device for device, count in enumerate(found.num_ops) if count]
    yield from _alternatives(plan, found.alternatives, used[0] if len(used) == 1 else -1, "if all of it ran on")


def _moved_with(group: Sequence[str]) -> Iterator[RenderableType]:
    if group:
        named = ", ".join(shortened(name, 28) for name in group[:_MAX_NAMES])
        more = f" and {len(group) - _MAX_NAMES:,} more" if len(group) > _MAX_NAMES else ""
        yield line(f"moves with {counted(len(group), 'op')}: {named}{more}")


def _inputs(plan: Plan, found: OpExplanation) -> Iterator[RenderableType]:
    if not found.inputs:
        return
    rows = [
        [
            shortened(entry.tensor, 36),
            plan.machine.devices[entry.device].name,
            format_bytes(entry.size_bytes),
            format_time_ns(entry.available_ns),
            "by a transfer" if entry.moved else "",
        ]
        for entry in found.inputs[:_MAX_INPUTS]
    ]
    yield ""
    yield table(["<reads", "<made on", "bytes", "there at", "<"], rows)
    if len(found.inputs) > _MAX_INPUTS:
        yield line(f"and {counted(len(found.inputs) - _MAX_INPUTS, 'input')} more", "dim")


def _alternatives(
    plan: Plan, found: Sequence[Alternative], own: int, asked: str = "if it ran on"
) -> Iterator[RenderableType]:
    """Yield the table of alternatives. own: the device of the op in the plan; -1 for several."""
    rows = [_row(plan, own, alternative) for alternative in found]
    yield table([f"<{asked}", "takes", "step", "vs plan", "peak there", "moved in all", "<"], rows)
    yield line("everything else, and the order, as in the plan; a search could do better around it", "dim")


def _row(plan: Plan, own: int, option: Alternative) -> list[str]:
    name = shortened(plan.machine.devices[option.device].name, 20)
    own_time = format_time_ns(option.op_time_ns)
    if option.step_time_ns is None or option.peak_bytes is None or option.bytes_moved is None:
        return [name, own_time, "", "", "", "", "not allowed"]
    note = "as planned" if option.device == own else ""
    if option.bytes_over_limit and option.device != own:
        note = f"{format_bytes(option.bytes_over_limit)} over the limits"
    return [
        name,
        own_time,
        format_time_ns(option.step_time_ns),
        change(option.step_time_ns, plan.step_time_ns),
        format_bytes(option.peak_bytes),
        format_bytes(option.bytes_moved),
        note,
    ]
