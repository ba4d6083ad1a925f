"""What `explain --op` prints."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType

from placewright.analysis.op_explanation import Alternative, OpExplanation
from placewright.plans.record import Plan
from placewright.support.quantities import counted, format_bytes, format_time_ns
from placewright.terminal.tables import heading, line, table
from placewright.terminal.text import change, shortened

_MOST_INPUTS = 8
_MOST_NAMES = 3


def op_tables(plan: Plan, found: OpExplanation) -> Iterator[RenderableType]:
    op, devices = found.op, plan.machine.devices
    where = devices[op.device].name
    took = format_time_ns(op.finish_ns - op.start_ns)
    yield heading(f"{shortened(op.name, 48)} on {where}: {took} from {format_time_ns(op.start_ns)}")
    facts = [op.kind, op.module, op.phase, op.source]
    yield line(", ".join(shortened(fact, 40) for fact in facts if fact))
    yield from (line(rule) for rule in found.constraints)
    if found.group:
        named = ", ".join(shortened(name, 28) for name in found.group[:_MOST_NAMES])
        more = f" and {len(found.group) - _MOST_NAMES:,} more" if len(found.group) > _MOST_NAMES else ""
        yield line(f"moves with {counted(len(found.group), 'op')}: {named}{more}")
    waited = f"; it waited for {shortened(found.waited_for, 40)}" if found.waited_for else ""
    yield line(f"{where} was free from {format_time_ns(found.device_free_ns)}{waited}")
    yield from _inputs(plan, found)
    yield ""
    yield from _alternatives(plan, found)


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
        for entry in found.inputs[:_MOST_INPUTS]
    ]
    yield ""
    yield table(["<reads", "<made on", "bytes", "there at", "<"], rows)
    if len(found.inputs) > _MOST_INPUTS:
        yield line(f"and {counted(len(found.inputs) - _MOST_INPUTS, 'input')} more", "dim")


def _alternatives(plan: Plan, found: OpExplanation) -> Iterator[RenderableType]:
    rows = [_row(plan, found.op.device, alternative) for alternative in found.alternatives]
    yield table(["<if it ran on", "op", "step", "vs plan", "peak there", "moved in all", "<"], rows)
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
