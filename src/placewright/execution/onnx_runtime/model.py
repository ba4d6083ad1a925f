"""An ONNX model that plans are made for: its nodes, its graph, which node each op is, and
models of some of its nodes.

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
from placewright.importers.onnx.records import first_line, initializers_of, values_read
from placewright.importers.onnx.shapes import DTYPES
from placewright.support.errors import InputError, shown
from placewright.support.files import read_bytes


@dataclass(frozen=True, kw_only=True)
class OnnxModel:
    """A model whose nodes are in a valid order, and its graph.

    name: of its file. model: a ModelProto. weights: the folder of the files that it names. graph: what it imports as.
    """

    name: str
    model: Any
    weights: Path
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
        """The node of each op of the graph, but for inputs, which have none."""
        graph = self.graph
        return {
            index: self.maker[graph.tensors[op.outputs[0]].name]
            for index, op in enumerate(graph.ops)
            if op.kind != "input"
        }

    @cached_property
    def op_of(self) -> Mapping[int, int]:
        """The op of each node that is one; what the importer folds away is none."""
        return {node: op for op, node in self.node_of.items()}

    @cached_property
    def initializers(self) -> Mapping[str, Any]:
        """The weights by name, a TensorProto or SparseTensorProto each."""
        return initializers_of(self.model.graph)

    @cached_property
    def inputs(self) -> Mapping[str, Any]:
        """What the model is called with, a ValueInfoProto each, by name."""
        return {value.name: value for value in self.model.graph.input if value.name not in self.initializers}

    @cached_property
    def tensor_of(self) -> Mapping[str, int]:
        """The tensor of the graph behind each value that is one."""
        return {tensor.name: index for index, tensor in enumerate(self.graph.tensors)}

    @cached_property
    def types(self) -> Mapping[str, Any]:
        """What ONNX's inference finds out about values, a TypeProto each: the graph knows tensors alone."""
        from onnx import shape_inference

        bare = _without_graph(self.model)
        bare.graph.name = "types"
        bare.graph.node.extend(self.nodes)
        bare.graph.input.extend(self.model.graph.input)
        # Types are all that is asked for, so weights need no values.
        bare.graph.input.extend(_typed(weight) for weight in self.initializers.values())
        bare.graph.value_info.extend(self.model.graph.value_info)
        bare.graph.output.extend(self.model.graph.output)
        return {value.name: value.type for value in shape_inference.infer_shapes(bare).graph.value_info}

    def with_makers(self, nodes: list[int], placed: set[int], stop: frozenset[int] = frozenset()) -> list[int]:
        """The nodes, each behind those it needs that are neither in `placed` nor in `stop`. Fills `placed`."""
        ordered: list[int] = []
        for node in nodes:
            pending = [node]
            while pending:
                top = pending[-1]
                before = {self.maker.get(value, -1) for value in values_read(self.nodes[top])} - placed - stop - {-1}
                if top not in placed and before:
                    pending.extend(sorted(before, reverse=True))
                    continue
                pending.pop()
                if top not in placed:
                    placed.add(top)
                    ordered.append(top)
        return ordered


def read_onnx(path: Path, dims: Mapping[str, int]) -> OnnxModel:
    """The model as its file has it. Raises InputError as `placewright.load_graph` does."""
    data = read_bytes(path)
    graph = parse_onnx(data, path.name, dims=dims)
    model = read_model(data, path.name)
    _fix_inputs(model, graph)
    fix_shapes(model, graph, str(path))
    return OnnxModel(name=str(path), model=model, weights=path.resolve().parent, graph=graph)


def _fix_inputs(model: Any, graph: Graph) -> None:
    """Leaves only inputs that must be given, with the sizes that the graph has."""
    defaults = initializers_of(model.graph)
    given = [value for value in model.graph.input if value.name not in defaults]
    del model.graph.input[:]
    model.graph.input.extend(given)
    # Without inputs of this name a weight can only stand alone since the fourth version of the format.
    model.ir_version = max(model.ir_version, 4)
    shapes = {tensor.name: tensor.shape for tensor in graph.tensors}
    for value in model.graph.input:
        shape = shapes.get(value.name)
        if value.type.WhichOneof("value") == "tensor_type" and shape is not None:
            for dim, size in zip(value.type.tensor_type.shape.dim, shape, strict=True):
                dim.dim_value = size


def check_feeds(model: OnnxModel, feeds: Mapping[str, Any]) -> None:
    """Raises InputError when feeds lack an input, name none, or have another shape or dtype than it."""
    import numpy as np

    graph = model.graph
    for name in feeds:
        if name not in model.inputs:
            known = ", ".join(map(shown, model.inputs))
            raise InputError(f"'{shown(model.name)}' has no input '{shown(name)}'; it has {known or 'none'}")
    for name in model.inputs:
        if name not in feeds:
            raise InputError(f"the input '{shown(name)}' of '{shown(model.name)}' is not given")
        tensor = graph.tensors[model.tensor_of[name]]
        try:
            given = np.asarray(feeds[name])
        except (ValueError, TypeError, RuntimeError) as error:
            raise InputError(f"the input '{shown(name)}' is given as no array: {first_line(error)}") from error
        if (tuple(given.shape), str(given.dtype)) != (tensor.shape, tensor.dtype) and tensor.dtype in _NUMPY:
            raise InputError(
                f"the input '{shown(name)}' is {tensor.dtype} of shape {list(tensor.shape or ())} in the plan, and was "
                f"given as {given.dtype} of shape {list(given.shape)}"
            )


#: Dtypes that numpy knows by the same name.
_NUMPY = frozenset(
    {
        *("bool", "float16", "float32", "float64", "int8", "int16", "int32", "int64"),
        *("uint8", "uint16", "uint32", "uint64", "complex64", "complex128"),
    }
)


_DEPENDS_ON_DATA = "depends on the data"


def fix_shapes(model: Any, graph: Graph, name: str) -> None:
    """Turns into weights what a model asks about shapes and its graph knows: to the graph these are constants, so that
    no plan has them wait for the value that is asked about. name: of the model.

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
                f"'{shown(name)}' cannot run as planned: it computes with the shape of '{asked_of}', and {why}"
            )
        model.graph.initializer.append(_answer(node, asked))
    if len(kept) < len(model.graph.node):
        del model.graph.node[:]
        model.graph.node.extend(kept)


def _why_a_guess(graph: Graph) -> str:
    """Why sizes in the graph may be others when it runs; empty where they may not."""
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
        ir_version=model.ir_version,
        opset_import=model.opset_import,
        metadata_props=model.metadata_props,
        functions=model.functions,
    )


def _declared(model: OnnxModel, name: str) -> Any:
    """A value that a session is given or returns: as the model declares it, else by its type alone, since how large it
    is may depend on the data."""
    import onnx

    for value in (*model.model.graph.input, *model.model.graph.output):
        if value.name == name:
            return value
    dtype = model.graph.tensors[model.tensor_of[name]].dtype if name in model.tensor_of else None
    if dtype is not None:
        return onnx.helper.make_tensor_value_info(name, DTYPES.index(dtype) + 1, None)
    if name not in model.types:
        raise InputError(
            f"the type of '{shown(name)}' of '{shown(model.name)}' is not known, so no part can be given it"
        )
    return onnx.helper.make_value_info(name, model.types[name])


def _typed(weight: Any) -> Any:
    """A weight as an input of its dtype and any shape."""
    import onnx

    if isinstance(weight, onnx.SparseTensorProto):
        return onnx.helper.make_sparse_tensor_value_info(weight.values.name, weight.values.data_type, None)
    return onnx.helper.make_tensor_value_info(weight.name, weight.data_type, None)
