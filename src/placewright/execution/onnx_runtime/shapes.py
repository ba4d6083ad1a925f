"""Nodes that ask for the shape of a value, answered beforehand."""

from __future__ import annotations

import math
from typing import Any

from placewright.graph import Graph
from placewright.support.errors import InputError, shown

_DEPENDS_ON_DATA = "depends on the data"


def fix_shapes(model: Any, graph: Graph, name: str) -> None:
    """Turns into weights what a model asks about shapes and its graph knows: to the graph these are constants, so that
    no plan has them wait for the value that is asked about. name: of the model.

    Raises InputError where a shape is a guess.
    """
    shapes = {tensor.name: tensor.shape for tensor in graph.tensors}
    made = {graph.tensors[tensor].name for op in graph.ops for tensor in op.outputs}
    kept = []
    for node in model.graph.node:
        if node.op_type not in ("Shape", "Size") or node.domain or node.output[0] in made:
            kept.append(node)
            continue
        asked = shapes.get(node.input[0])
        if asked is None or node.input[0] not in made:
            kept.append(node)
            continue
        if any(_DEPENDS_ON_DATA in warning for warning in graph.metadata.get("warnings", ())):
            raise InputError(
                f"'{shown(name)}' cannot run as planned: it computes with the shape of '{shown(node.input[0])}', and "
                "sizes in it depend on the data"
            )
        model.graph.initializer.append(_answer(node, asked))
    if len(kept) < len(model.graph.node):
        del model.graph.node[:]
        model.graph.node.extend(kept)


def _answer(node: Any, shape: tuple[int, ...]) -> Any:
    import numpy as np
    from onnx import numpy_helper

    if node.op_type == "Size":
        return numpy_helper.from_array(np.array(math.prod(shape), np.int64), node.output[0])
    bounds = {attribute.name: attribute.i for attribute in node.attribute}
    return numpy_helper.from_array(np.array(shape[bounds.get("start") : bounds.get("end")], np.int64), node.output[0])
