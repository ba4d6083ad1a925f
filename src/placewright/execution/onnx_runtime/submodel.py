"""Models made of some nodes of another: what a session runs, and what an export writes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from placewright.execution.onnx_runtime.model import OnnxModel
from placewright.importers.onnx.records import values_read
from placewright.importers.onnx.shapes import DTYPES
from placewright.support.errors import InputError, shown


def submodel(model: OnnxModel, nodes: Sequence[int], inputs: Iterable[str], outputs: Iterable[str]) -> Any:
    """A ModelProto of nodes in this order, called as the graph calls its ops, with the weights that it needs."""
    import onnx

    outputs = list(outputs)
    part = onnx.ModelProto()
    part.CopyFrom(_without_graph(model.model))
    part.graph.name = model.model.graph.name or "part"
    part.graph.node.extend(named_nodes(model, nodes))
    read = dict.fromkeys(value for node in nodes for value in values_read(model.nodes[node])) | dict.fromkeys(outputs)
    for weight in (model.initializers[name] for name in read if name in model.initializers):
        is_sparse = isinstance(weight, onnx.SparseTensorProto)
        (part.graph.sparse_initializer if is_sparse else part.graph.initializer).append(weight)
    part.graph.input.extend(_declared(model, name) for name in inputs)
    part.graph.output.extend(_declared(model, name) for name in outputs)
    return part


def named_nodes(model: OnnxModel, nodes: Sequence[int]) -> Iterable[Any]:
    """Copies of nodes; each that is an op is called what the graph calls it, so that profiles tell which one ran."""
    import onnx

    for index in nodes:
        node = onnx.NodeProto()
        node.CopyFrom(model.nodes[index])
        op = model.op_of.get(index)
        if op is not None:
            node.name = model.graph.ops[op].name
        yield node


def _without_graph(model: Any) -> Any:
    """All that a model states about itself."""
    import onnx

    return onnx.ModelProto(
        ir_version=model.ir_version, opset_import=model.opset_import, metadata_props=model.metadata_props
    )


def _declared(model: OnnxModel, name: str) -> Any:
    """A value that a session is given or returns: as the model declares it, else by its type alone, since how large it
    is may depend on the data."""
    import onnx

    for value in (*model.model.graph.input, *model.model.graph.output):
        if value.name == name:
            return value
    dtype = model.graph.tensors[model.tensor_of[name]].dtype if name in model.tensor_of else None
    if dtype is None:
        raise InputError(f"'{shown(name)}' of '{shown(model.name)}' is no tensor, so no other device can be given it")
    return onnx.helper.make_tensor_value_info(name, DTYPES.index(dtype) + 1, None)
