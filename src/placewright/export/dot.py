"""The plan as a Graphviz graph: ops in one cluster per device, what each waited for, transfers dashed.

A plan does not hold the network's own edges; drawn are those that decided when things start. With its graph at hand
`dot_flow.py` draws the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from placewright.plans.record import Plan, ScheduledOp, Transfer
from placewright.support.quantities import format_bytes, format_time_ns

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
