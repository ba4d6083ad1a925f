"""Times for compilers that fuse: ops that are fused into the kernels of their readers take almost no time."""

from __future__ import annotations

from dataclasses import replace

from placewright.costs.estimate import estimate_costs
from placewright.costs.traffic import count_bytes
from placewright.graph import Graph, Op
from placewright.machine import Machine

#: Kinds of ops that Inductor computes in their readers.
_FUSED = frozenset({"elementwise", "fill", "copy", "random"})


def with_fused_times(graph: Graph, machine: Machine, share: float) -> Graph:
    """Return the graph with times for a machine of one device: those of the cost model, except that ops that a compiler
    fuses take only a share of the time for their bytes. The metadata record the share."""
    assert machine.num_devices == 1
    device = machine.devices[0]
    times = estimate_costs(graph, machine).time_ns[:, 0].tolist()
    bandwidth = (device.memory_bandwidth_bytes_per_s or 0.0) * device.bandwidth_efficiency

    def time_of(op: Op, whole: int) -> int:
        if op.kind not in _FUSED or not bandwidth:
            return whole
        inputs = [graph.tensors[index] for index in dict.fromkeys(op.inputs)]
        moved = count_bytes(op, inputs, [graph.tensors[index] for index in op.outputs])
        return min(whole, int(share * moved * 1e9 / bandwidth))

    ops = (
        op if op.kind in ("view", "input") else replace(op, time_ns=time_of(op, whole))
        for op, whole in zip(graph.ops, times, strict=True)
    )
    return replace(graph, ops=tuple(ops), metadata={**graph.metadata, "fused_share": share})
