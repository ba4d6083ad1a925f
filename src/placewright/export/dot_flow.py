"""The network as a Graphviz graph: its own edges, ops in one cluster per layer, devices as colours; what crosses from
device to device dashed, with its size."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from placewright.analysis.layers import layer_name
from placewright.export.dot import document, fill_of, op_node, quoted
from placewright.graph import Graph
from placewright.plans.record import Plan, ScheduledOp
from placewright.support.quantities import format_bytes
from placewright.verification.replay import demands


def to_bytes(plan: Plan, graph: Graph) -> bytes:
    """UTF-8 DOT text for a plan and its graph, views passed through. Nodes are named by position: p0, p1 ..."""
    return document(plan, [*_devices(plan), *_layers(plan), *_edges(plan, graph)])


def _devices(plan: Plan) -> Iterator[str]:
    """What the colours mean."""
    yield "  subgraph cluster_devices {"
    yield "    label=devices; color=gray80;"
    for index, device in enumerate(plan.machine.devices):
        yield f'    d{index} [label={quoted(device.name)}, shape=plain, fillcolor="{fill_of(index)}"];'
    yield "  }"


def _layers(plan: Plan) -> Iterator[str]:
    members: defaultdict[str, list[ScheduledOp]] = defaultdict(list)
    for op in plan.ops:
        members[layer_name(op.module)].append(op)
    for number, (layer, ops) in enumerate(members.items()):
        if layer:
            yield f"  subgraph cluster_{number} {{"
            yield f"    label={quoted(layer)}; color=gray60;"
        yield from (f"    {op_node(op)}" for op in ops)
        if layer:
            yield "  }"


def _edges(plan: Plan, graph: Graph) -> Iterator[str]:
    """Producer -> reader, once for all tensors between them; gray where one only follows the other."""
    scheduled = {op.name: op for op in plan.ops}
    wanted = demands(graph, "signal")
    for index, values in wanted.reads.items():
        reader = scheduled[graph.ops[index].name]
        sizes: defaultdict[int, int] = defaultdict(int)
        for value in values:
            sizes[wanted.maker[value]] += graph.tensors[value].size_bytes
        for maker, size in sorted(sizes.items()):
            yield _edge(scheduled[graph.ops[maker].name], reader, size)
        for before in sorted(wanted.waits[index] - sizes.keys()):
            first = scheduled[graph.ops[before].name]
            yield f"  p{first.position} -> p{reader.position} [color=gray80, arrowhead=vee];"


def _edge(producer: ScheduledOp, reader: ScheduledOp, size_bytes: int) -> str:
    crosses = producer.device != reader.device
    looks = f" [style=dashed, label={quoted(format_bytes(size_bytes))}]" if crosses else ""
    return f"  p{producer.position} -> p{reader.position}{looks};"
