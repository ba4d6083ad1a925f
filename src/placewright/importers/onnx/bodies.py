"""The work of the branches of an If and the bodies of a Loop or Scan, which the node does as one op."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from placewright.costs.estimate import compute_dtype, dearest_dtype
from placewright.costs.flops import NoFormulaError, count_flops
from placewright.costs.traffic import count_bytes
from placewright.graph import Graph
from placewright.importers.builder import GraphBuilder
from placewright.importers.onnx.branches import body_of, branches_of, inside
from placewright.importers.onnx.records import initializers_of, node_attributes, values_read
from placewright.importers.onnx.shapes import Shapes
from placewright.support.errors import InputError

#: A function that makes the graph of a model from its shapes, the names of its weights and a builder.
BuildGraph: TypeAlias = Callable[[Shapes, frozenset[str], GraphBuilder], Graph]


@dataclass(frozen=True, kw_only=True)
class Work:
    """The work of a node with subgraphs in a step.

    flops, bytes_moved: of all rounds. computes: the attribute that says in which dtype most FLOPs are computed, where
    that cannot be seen. temporary_bytes: the most that is held between ops inside. trips: rounds of a loop, None for a
    choice. assumed: assumptions, in words after the node's name; empty if none. warnings: about the subgraphs.
    """

    flops: int
    bytes_moved: int
    computes: Mapping[str, str]
    temporary_bytes: int
    trips: int | None = None
    assumed: str = ""
    warnings: Sequence[str] = ()


class _InnerBuilder(GraphBuilder):
    """A builder that keeps its warnings, so that the outer graph passes them on."""

    def warn(self, message: str) -> None:
        self.warnings.append(message)


def work_of(node: Any, shapes: Shapes, constants: Collection[str], build_graph: BuildGraph) -> Work | None:
    """The work of an If, Loop or Scan; None where that of its subgraphs cannot be found.

    constants: values outside that are the same in every step. build_graph: makes the graph of a subgraph.
    """
    if node.op_type == "If":
        return _dearest(
            [_work(branch, inside(branch, shapes), constants, build_graph) for branch in branches_of(node, shapes)]
        )
    body = body_of(node, node_attributes(node), shapes)
    once = None if body is None else _work(body.graph, body.shapes, constants, build_graph)
    if body is None or once is None:
        return None
    trips = 1 if body.rounds is None else body.rounds
    assumed = []
    if body.rounds is None:
        assumed.append("runs as often as data says; it is assumed to run once")
    elif not body.is_exact:
        assumed.append(f"may end early; all of its {trips} rounds are counted")
    if body.grows:
        assumed.append("has states that change their shape; all rounds are counted as the first one")
    return Work(
        flops=trips * once.flops,
        bytes_moved=trips * once.bytes_moved,
        computes=once.computes,
        temporary_bytes=once.temporary_bytes,
        trips=trips,
        assumed=", and ".join(assumed),
        warnings=once.warnings,
    )


def _dearest(works: Sequence[Work | None]) -> Work | None:
    """The work of the most expensive branch that can run, with the memory of the one that needs most."""
    known = [work for work in works if work is not None]
    if not known or len(known) < len(works):
        return None
    dearest = max(known, key=lambda work: (work.flops, work.bytes_moved))
    return Work(
        flops=dearest.flops,
        bytes_moved=dearest.bytes_moved,
        computes=dearest.computes,
        temporary_bytes=max(work.temporary_bytes for work in known),
        assumed="chooses between branches at run time; it is assumed to take the dearest" if len(known) > 1 else "",
        warnings=[warning for work in known for warning in work.warnings],
    )


def _work(branch: Any, shapes: Shapes | None, constants: Collection[str], build_graph: BuildGraph) -> Work | None:
    """The work of a branch or body when it runs once. shapes: its known shapes."""
    if shapes is None:
        return None
    own = initializers_of(branch).keys() | initializers_of(shapes.model.graph).keys()
    read = {name for node in branch.node for name in values_read(node)} | {value.name for value in branch.output}
    given = {value.name for value in branch.input}
    builder = _InnerBuilder(shapes.source)
    try:
        graph = build_graph(shapes, frozenset(own | (read & set(constants)) - given), builder)
    except InputError:
        # A value in it has no shape, or nothing makes it.
        return None
    flops: Counter[str | None] = Counter()
    bytes_moved = 0
    for op in graph.ops:
        inputs, outputs = ([graph.tensors[index] for index in indices] for indices in (op.inputs, op.outputs))
        bytes_moved += count_bytes(op, [graph.tensors[index] for index in dict.fromkeys(op.inputs)], outputs)
        try:
            flops[compute_dtype(op, inputs, outputs)] += count_flops(op, inputs, outputs)
        except NoFormulaError:
            continue
    return Work(
        flops=flops.total(),
        bytes_moved=bytes_moved,
        computes=dearest_dtype(flops, graph.tensors),
        temporary_bytes=_temporary_bytes(graph),
        warnings=builder.warnings,
    )


def _temporary_bytes(graph: Graph) -> int:
    """The most bytes held at once for results of its ops and their workspaces."""
    base = graph.base_of
    results = {base[index] for index, tensor in enumerate(graph.tensors) if tensor.is_output}
    last_use = {base[index]: position for position, op in enumerate(graph.ops) for index in op.inputs}
    freed: dict[int, int] = {}
    held = most = 0
    for position, op in enumerate(graph.ops):
        for index in op.outputs if op.kind != "input" else ():
            size = graph.tensors[index].held_bytes
            if base[index] == index and index not in results and index in last_use:
                held += size
                freed[last_use[index]] = freed.get(last_use[index], 0) + size
        most = max(most, held + op.workspace_bytes)
        held -= freed.pop(position, 0)
    return most
