"""The nodes of an ONNX model, the op of its graph for each, and the values they read from each other.

Imported only where onnx is known to be present.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from placewright.graph import Graph
from placewright.importers.onnx.model import parse_onnx, read_model
from placewright.importers.onnx.records import initializers_of, values_read
from placewright.support.errors import InputError, shown
from placewright.support.files import read_bytes


@dataclass(frozen=True, kw_only=True)
class OnnxModel:
    """A model whose nodes are in a valid order, and its graph.

    model: a ModelProto. graph: the result of its import.
    """

    model: Any
    graph: Graph

    @property
    def nodes(self) -> Any:
        return self.model.graph.node

    @cached_property
    def maker(self) -> Mapping[str, int]:
        """The node that makes each value."""
        return {value: index for index, node in enumerate(self.nodes) for value in node.output if value}

    @cached_property
    def node_of(self) -> Mapping[int, int]:
        """The node of each op of the graph, except inputs, which have none."""
        graph = self.graph
        return {
            index: self.maker[graph.tensors[op.outputs[0]].name]
            for index, op in enumerate(graph.ops)
            if op.kind != "input"
        }

    @cached_property
    def op_of(self) -> Mapping[int, int]:
        """The op of each node that is one; nodes that the importer folds away have none."""
        return {node: op for op, node in self.node_of.items()}

    def with_makers(self, nodes: Iterable[int], placed: set[int]) -> list[int]:
        """Order the nodes, each after those it needs that are not in `placed`. Fills `placed`."""
        ordered: list[int] = []
        for node in nodes:
            pending = [node]
            while pending:
                top = pending[-1]
                before = {self.maker.get(value, -1) for value in values_read(self.nodes[top])} - placed - {-1}
                if top not in placed and before:
                    pending.extend(sorted(before, reverse=True))
                    continue
                pending.pop()
                if top not in placed:
                    placed.add(top)
                    ordered.append(top)
        return ordered

    def named_nodes(self, nodes: Sequence[int]) -> Iterable[Any]:
        """Copy nodes; the copy of a node that is an op gets its name in the graph."""
        import onnx

        for index in nodes:
            node = onnx.NodeProto()
            node.CopyFrom(self.nodes[index])
            op = self.op_of.get(index)
            if op is not None:
                node.name = self.graph.ops[op].name
            yield node


def read_onnx(path: Path, dims: Mapping[str, int]) -> OnnxModel:
    """Read the model from its file. Raises InputError as `placewright.load_graph` does."""
    data = read_bytes(path)
    graph = parse_onnx(data, path.name, dims=dims)
    model = read_model(data, path.name)
    _fix_inputs(model, graph)
    _fix_shapes(model, graph, str(path))
    return OnnxModel(model=model, graph=graph)


def _fix_inputs(model: Any, graph: Graph) -> None:
    """Keep only inputs that must be given, with the sizes that the graph has."""
    defaults = initializers_of(model.graph)
    given = [value for value in model.graph.input if value.name not in defaults]
    del model.graph.input[:]
    model.graph.input.extend(given)
    # Only from the fourth version of the format on, a weight need not also be an input.
    model.ir_version = max(model.ir_version, 4)
    shapes = {tensor.name: tensor.shape for tensor in graph.tensors}
    for value in model.graph.input:
        shape = shapes.get(value.name)
        if value.type.WhichOneof("value") == "tensor_type" and shape is not None:
            for dim, size in zip(value.type.tensor_type.shape.dim, shape, strict=True):
                dim.dim_value = size


_DEPENDS_ON_DATA = "depends on the data"


def _fix_shapes(model: Any, graph: Graph, name: str) -> None:
    """Turn nodes that compute known shapes into weights: in the graph these are constants, so no plan makes them wait
    for the value whose shape they ask for. name: of the model.

    Raises InputError where a shape is a guess.
    """
    shapes = {tensor.name: tensor.shape for tensor in graph.tensors}
    made = {graph.tensors[tensor].name for op in graph.ops for tensor in op.outputs}
    given = {value.name for value in model.graph.input}
    why = _why_a_guess(graph)
    kept = []
    for node in model.graph.node:
        if node.op_type not in ("Shape", "Size") or node.domain or node.output[0] in made:
            kept.append(node)
            continue
        asked = shapes.get(node.input[0])
        if asked is None or node.input[0] not in made:
            kept.append(node)
            continue
        if node.input[0] not in given and why:
            asked_of = shown(node.input[0])
            raise InputError(
                f"'{shown(name)}' cannot be exported: it computes with the shape of '{asked_of}', and {why}"
            )
        model.graph.initializer.append(_answer(node, asked))
    if len(kept) < len(model.graph.node):
        del model.graph.node[:]
        model.graph.node.extend(kept)


def _why_a_guess(graph: Graph) -> str:
    """Say why sizes in the graph may differ when it runs; empty where they may not."""
    if any(_DEPENDS_ON_DATA in warning for warning in graph.metadata.get("warnings", ())):
        return "sizes in it depend on the data"
    stated = graph.metadata.get("stated_sizes", ())
    return f"the size of '{shown(stated[0])}' is what --dim says, not what the data come to" if stated else ""


def _answer(node: Any, shape: tuple[int, ...]) -> Any:
    import numpy as np
    from onnx import numpy_helper

    if node.op_type == "Size":
        return numpy_helper.from_array(np.array(math.prod(shape), np.int64), node.output[0])
    bounds = {attribute.name: attribute.i for attribute in node.attribute}
    return numpy_helper.from_array(np.array(shape[bounds.get("start") : bounds.get("end")], np.int64), node.output[0])
