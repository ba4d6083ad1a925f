"""The nodes of an FX graph in the order of a plan, before Inductor schedules them.

Imported only where torch is known to be present.
"""

from __future__ import annotations

import heapq
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import fx

from placewright.importers.source_lines import phase_of, source_of
from placewright.plans.record import Plan

#: What Dynamo calls the module that is compiled, and how it writes what is below it.
_ROOT = re.compile(r"^L\['\w+'\]\.?")
_ITEM = re.compile(r"(?:\._modules)?\[['\"]?(\w+)['\"]?\]")

#: Where a node belongs: its place in the plan, then its place in the graph.
Rank = tuple[int, int]


def ranks_by_name(graph: fx.Graph, plan: Plan) -> dict[fx.Node, int]:
    """The plan's position of every node, by the names of a plan that was made of this graph."""
    position = {op.name: op.position for op in plan.ops}
    return {node: position[node.name] for node in graph.nodes if node.op == "call_function" and node.name in position}


def ranks_by_origin(graph: fx.Graph, plan: Plan) -> dict[fx.Node, int]:
    """The plan's positions of nodes that stand for its ops, by layer, line of source and pass.

    Inductor takes some ops of a plan apart and drops others. Of each layer and line, nodes and ops are laid beside each
    other in their orders, several nodes to an op or the other way round.
    """
    planned = _planned(plan)
    nodes: defaultdict[tuple[str, ...], list[fx.Node]] = defaultdict(list)
    for node in graph.nodes:
        if node.op == "call_function" and (key := _key(node, planned)) is not None:
            nodes[key].append(node)
    return {
        node: planned[key][place * len(planned[key]) // len(found)]
        for key, found in nodes.items()
        for place, node in enumerate(found)
    }


def _planned(plan: Plan) -> Mapping[tuple[str, ...], list[int]]:
    """Positions by layer, pass and line, and by layer and pass."""
    found: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)
    for op in (op for op in plan.ops if op.kind != "input"):
        found[op.module, op.phase, op.source].append(op.position)
        found[op.module, op.phase].append(op.position)
    return found


def _key(node: fx.Node, planned: Mapping[tuple[str, ...], list[int]]) -> tuple[str, ...] | None:
    module, source = _layer_of(node), source_of(node)
    # A graph without a backward pass has no passes to tell apart.
    for phase in dict.fromkeys((phase_of(node), "", "forward")):
        for key in ((module, phase, source), (module, phase)):
            if key in planned:
                return key
    return None


def _layer_of(node: fx.Node) -> str:
    stack = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack") or {}
    path = next(reversed([path for path, _ in stack.values()]), "")
    return _ITEM.sub(r".\1", _ROOT.sub("", path)).strip(".").partition("@")[0]


def reorder(graph: fx.Graph, ranks: Mapping[fx.Node, int]) -> None:
    """Brings the calls of a graph into the order of their ranks, as far as they depend on each other.

    A node without a rank stands right before the first node that reads it. Nodes that write to what others read stay
    behind all nodes before them, and nodes that draw random numbers stay in their order.
    """
    nodes = [node for node in graph.nodes if node.op not in ("placeholder", "output")]
    if not nodes:
        return
    cursor = nodes[0].prev
    order = _sorted(nodes, _complete(nodes, ranks), _needs(nodes))
    for node in order:
        if cursor.next is not node:
            cursor.append(node)
        cursor = node
    graph.lint()


def _complete(nodes: Sequence[fx.Node], ranks: Mapping[fx.Node, int]) -> dict[fx.Node, Rank]:
    """A rank for every node: that of its first reader where it has none, or, where nothing reads it, of what it reads
    last."""
    place = {node: number for number, node in enumerate(nodes)}
    found: dict[fx.Node, int] = dict(ranks)
    for node in reversed(nodes):
        readers = [found[reader] for reader in node.users if reader in found]
        if node not in found and readers:
            found[node] = min(readers)
    for node in nodes:
        if node not in found:
            found[node] = max((found[source] for source in node.all_input_nodes if source in found), default=0)
    return {node: (found[node], place[node]) for node in nodes}


def _needs(nodes: Sequence[fx.Node]) -> dict[fx.Node, set[fx.Node]]:
    """What must come before each node."""
    inside = set(nodes)
    needs = {node: {source for source in node.all_input_nodes if source in inside} for node in nodes}
    since_write: list[fx.Node] = []
    last_write: fx.Node | None = None
    last_random: fx.Node | None = None
    for node in nodes:
        if last_write is not None:
            needs[node].add(last_write)
        if _writes(node):
            needs[node].update(since_write)
            since_write, last_write = [], node
        else:
            since_write.append(node)
        if _is_random(node):
            if last_random is not None:
                needs[node].add(last_random)
            last_random = node
    return needs


def _writes(node: fx.Node) -> bool:
    if isinstance(node.target, torch._ops.OpOverload):
        return bool(node.target._schema.is_mutable)
    # What PyTorch itself may not move, and calls of subgraphs.
    return node.op == "call_function" and (node.is_impure() or isinstance(node.target, torch._ops.HigherOrderOperator))


def _is_random(node: fx.Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and torch.Tag.nondeterministic_seeded in node.target.tags


def _sorted(
    nodes: Sequence[fx.Node], ranks: Mapping[fx.Node, Rank], needs: Mapping[fx.Node, set[fx.Node]]
) -> Iterator[fx.Node]:
    """Of the nodes whose needs are met always the one with the lowest rank."""
    waiting = {node: len(needs[node]) for node in nodes}
    following: defaultdict[fx.Node, list[fx.Node]] = defaultdict(list)
    for node in nodes:
        for before in needs[node]:
            following[before].append(node)
    ready = [(ranks[node], node) for node in nodes if not waiting[node]]
    heapq.heapify(ready)
    while ready:
        _, node = heapq.heappop(ready)
        yield node
        for after in following[node]:
            waiting[after] -= 1
            if not waiting[after]:
                heapq.heappush(ready, (ranks[after], after))
