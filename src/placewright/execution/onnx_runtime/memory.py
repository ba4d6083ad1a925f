"""Peak memory of what ops make and need while they run, planned and measured; weights and inputs are left out, since
they are there before a step and after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from placewright.execution.onnx_runtime.trace import NodeRun
from placewright.plans.record import Plan


def planned_peak(plan: Plan, device: int = 0) -> int:
    """As the plan has it, on one of its devices."""
    inputs = {op.name for op in plan.ops if op.kind == "input"}
    events: list[tuple[int, int]] = []
    for buffer in plan.buffers:
        if buffer.device == device and buffer.kind != "resident" and buffer.op not in inputs:
            events += [(buffer.allocated_ns, buffer.size_bytes), (buffer.freed_ns, -buffer.size_bytes)]
    peak = in_use = 0
    # At one moment, what ends makes room for what begins.
    for _, change in sorted(events):
        in_use += change
        peak = max(peak, in_use)
    return peak


def measured_peak(steps: Sequence[Sequence[NodeRun]], workspaces: Mapping[str, int]) -> int | None:
    """Of a session, in the last of several steps: what it had in use after each node beyond what it had before the
    first of these steps, and the node's workspace, which is given back by then. None where the profile does not
    tell."""
    if not steps[0] or steps[0][0].bytes_before is None:
        return None
    before = steps[0][0].bytes_before
    return max(
        node.bytes_in_use - before + workspaces.get(node.name, 0) for node in steps[-1] if node.bytes_in_use is not None
    )
