"""An ONNX model as ONNX Runtime optimises it.

Imported only where onnx and onnxruntime are known to be present.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnx

from placewright.execution.onnx_runtime import sessions
from placewright.execution.onnx_runtime.model import OnnxModel, fix_shapes
from placewright.importers.onnx.model import parse_onnx, read_model
from placewright.importers.onnx.records import subgraphs


def optimised(source: OnnxModel, dims: Mapping[str, int], folder: Path) -> OnnxModel:
    """The model after ONNX Runtime's basic and extended optimisations; its weights are put in `folder`. As the file has
    it where no node is left, since all that it returns is constant or what it is given."""
    data = sessions.optimise(source.model.SerializeToString(), source.weights, source.name, folder)
    written = onnx.load_model_from_string(data)
    if not written.graph.node:
        return source
    _drop_repeated_constants(written.graph)
    data = written.SerializeToString()
    name = Path(source.name).name
    graph = parse_onnx(data, name, dims=dims, dims_are_shared=True)
    model = read_model(data, name)
    fix_shapes(model, graph, source.name)
    return OnnxModel(name=source.name, model=model, weights=folder, graph=graph)


def _drop_repeated_constants(graph: Any) -> None:
    """ONNX Runtime writes some constants of bodies both as nodes and as initializers, and does not load that again."""
    known = {weight.name for weight in graph.initializer}
    kept = [node for node in graph.node if node.op_type != "Constant" or node.output[0] not in known]
    if len(kept) < len(graph.node):
        del graph.node[:]
        graph.node.extend(kept)
    for node in graph.node:
        for inner in subgraphs(node):
            _drop_repeated_constants(inner)
