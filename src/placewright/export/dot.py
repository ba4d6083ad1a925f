"""The plan as a Graphviz graph: ops in one cluster per device, what each waited for, transfers dashed.

A plan does not hold the network's own edges; drawn are those that decided when things start. With its graph at hand
`flow_to_bytes` draws the others: ops in one cluster per layer, devices as colours; what crosses from device to device
dashed, with its size.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from placewright.analysis.layers import layer_name
from placewright.graph import Graph
from placewright.plans.record import Plan, ScheduledOp, Transfer
from placewright.support.quantities import format_bytes, format_time_ns
from placewright.verification.replay import demands

#: Fill colours of devices, repeated after eight; light tints of Okabe and Ito's palette.
_FILLS = ("#cfe5f3", "#fbe3b5", "#c9eadd", "#f6d8e8", "#d9ecfa", "#fbf6c2", "#f4cdb8", "#e3e3e3")


def to_bytes(plan: Plan) -> bytes:
    """UTF-8 DOT text. Nodes are named by position: p0, p1 ..."""
    return document(plan, [*_clusters(plan), *_edges(plan)])


def document(plan: Plan, statements: Iterable[str]) -> bytes:
    """The statements as one digraph in the looks of all of ours."""
    lines = [
        f"digraph {quoted(plan.graph_name)} {{",
        "  rankdir=TB; compound=true; fontname=Helvetica;",
        "  node [shape=box, style=filled, fontname=Helvetica, fontsize=10, color=gray40];",
        "  edge [color=gray40, fontname=Helvetica, fontsize=9];",
        *statements,
        "}",
    ]
    return ("\n".join(lines) + "\n").encode("utf-8", "backslashreplace")


def fill_of(device: int) -> str:
    """The colour of a device."""
    return _FILLS[device % len(_FILLS)]


def _clusters(plan: Plan) -> Iterator[str]:
    for index, device in enumerate(plan.machine.devices):
        yield f"  subgraph cluster_{index} {{"
        yield f"    label={quoted(device.name)}; color=gray60;"
        yield from (f"    {op_node(op)}" for op in plan.ops if op.device == index)
        yield from (f"    {_arrival_node(t)}" for t in plan.transfers if t.destination == index)
        yield "  }"


def op_node(op: ScheduledOp) -> str:
    """An op in the colour of its device, with its kind and time."""
    label = quoted(f"{op.name}\n{op.kind}, {format_time_ns(op.finish_ns - op.start_ns)}")
    return f'p{op.position} [label={label}, fillcolor="{fill_of(op.device)}", tooltip={quoted(op.module or op.name)}];'


def _arrival_node(transfer: Transfer) -> str:
    return f"p{transfer.position} [shape=point, width=0.08, tooltip={quoted(transfer.tensor)}];"


def _edges(plan: Plan) -> Iterator[str]:
    """Producer -> arrival (dashed), and what each op waited for; transfers that waited for their link are left out."""
    producers = {op.name: op.position for op in plan.ops}
    arrivals = {transfer.position for transfer in plan.transfers}
    for transfer in plan.transfers:
        label = quoted(format_bytes(transfer.size_bytes))
        if (producer := producers.get(transfer.producer)) is not None:
            looks = f"style=dashed, arrowhead=none, label={label}, tooltip={quoted(transfer.tensor)}"
            yield f"  p{producer} -> p{transfer.position} [{looks}];"
    for op in plan.ops:
        if op.waits_for >= 0:
            style = " [style=dashed]" if op.waits_for in arrivals else ""
            yield f"  p{op.waits_for} -> p{op.position}{style};"


def quoted(text: str) -> str:
    """A string of the DOT language."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\r", " ").replace("\n", "\\n").replace("\0", " ")
    return f'"{escaped}"'


def flow_to_bytes(plan: Plan, graph: Graph) -> bytes:
    """UTF-8 DOT text for a plan and its graph, views passed through. Nodes are named by position: p0, p1 ..."""
    return document(plan, [*_colours(plan), *_layers(plan), *_flow_edges(plan, graph)])


def _colours(plan: Plan) -> Iterator[str]:
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


def _flow_edges(plan: Plan, graph: Graph) -> Iterator[str]:
    """Producer -> reader, once for all tensors between them; gray where one only follows the other."""
    scheduled = {op.name: op for op in plan.ops}
    wanted = demands(graph, "signal")
    for index, values in wanted.reads.items():
        reader = scheduled[graph.ops[index].name]
        sizes: defaultdict[int, int] = defaultdict(int)
        for value in values:
            sizes[wanted.maker[value]] += graph.tensors[value].size_bytes
        for maker, size in sorted(sizes.items()):
            yield _flow_edge(scheduled[graph.ops[maker].name], reader, size)
        for before in sorted(wanted.waits[index] - sizes.keys()):
            first = scheduled[graph.ops[before].name]
            yield f"  p{first.position} -> p{reader.position} [color=gray80, arrowhead=vee];"


def _flow_edge(producer: ScheduledOp, reader: ScheduledOp, size_bytes: int) -> str:
    crosses = producer.device != reader.device
    looks = f" [style=dashed, label={quoted(format_bytes(size_bytes))}]" if crosses else ""
    return f"  p{producer.position} -> p{reader.position}{looks};"
