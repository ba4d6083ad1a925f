"""Whether ONNX Runtime ran what was planned, where, and in what order, by its own profile."""

from __future__ import annotations

from collections.abc import Iterable

from placewright.execution.onnx_runtime.model import OnnxModel
from placewright.execution.onnx_runtime.step import PartTrace
from placewright.plans.record import Plan
from placewright.support.errors import shown

_PROVIDER = "CPUExecutionProvider"


def difference(plan: Plan, model: OnnxModel, traces: Iterable[PartTrace]) -> str | None:
    """The first difference in one sentence; None where all ran as planned."""
    for trace in traces:
        device = plan.machine.devices[trace.part.device].name
        planned = [model.graph.ops[op].name for op in trace.part.ops if op in model.node_of]
        for nodes in trace.steps:
            ran = list(dict.fromkeys(node.name for node in nodes if node.name in set(planned)))
            if missing := [name for name in planned if name not in set(ran)]:
                return f"ONNX Runtime did not run '{shown(missing[0])}', which the plan puts on {device}"
            if ran != planned:
                first, instead = next(pair for pair in zip(planned, ran, strict=True) if pair[0] != pair[1])
                return f"on {device} ONNX Runtime ran '{shown(instead)}' where the plan has '{shown(first)}'"
            for node in nodes:
                if node.provider != _PROVIDER:
                    return f"'{shown(node.name)}' ran on {shown(node.provider)}, and the plan puts it on {device}"
    return None
