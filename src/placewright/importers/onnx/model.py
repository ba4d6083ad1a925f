"""ONNX models: read, made self-contained and ordered, their shapes fixed, and turned into a Graph."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from placewright.graph import Graph, Op, Tensor, in_topological_order
from placewright.importers.onnx.branches import types_of
from placewright.importers.onnx.graph import build_graph
from placewright.importers.onnx.records import (
    first_line,
    initializers_of,
    label_of,
    onnx_errors,
    subgraphs,
    values_read,
)
from placewright.importers.onnx.refusals import check_nodes
from placewright.importers.onnx.shapes import Shapes
from placewright.importers.onnx.values import MAX_ELEMENTS
from placewright.support.errors import InputError, MissingExtraError, shown


def parse_onnx(
    data: bytes, name: str, *, dims: Mapping[str, int] | None = None, dims_are_shared: bool = False
) -> Graph:
    """A graph from the bytes of an ONNX file; weights kept in other files are never read.

    dims: sizes for open dimensions by name ("batch") or by tensor and axis ("input_ids:1"). dims_are_shared: the model
        need not have all of them.

    Raises InputError naming the file and the dimension, node or tensor; MissingExtraError without the onnx package.
    """
    model = _read(data, name)
    weights = _set_weights_aside(model, name)
    model = _inline_functions(model, name)
    check_nodes(model.graph, name)
    _sort_nodes(model, name)
    shapes = Shapes(
        model=model,
        dims=_checked_dims(dims or {}, name),
        source=name,
        types_within=types_of,
        dims_are_shared=dims_are_shared,
    )
    shapes.infer()
    return build_graph(shapes, weights)


def read_model(data: bytes, name: str) -> Any:
    """The model itself, its functions inlined and its nodes in a valid order. Raises as `parse_onnx` does."""
    model = _inline_functions(_read(data, name), name)
    check_nodes(model.graph, name)
    _sort_nodes(model, name)
    return model


def _read(data: bytes, name: str) -> Any:
    try:
        import onnx
        from google.protobuf.message import DecodeError
    except ImportError as error:
        raise MissingExtraError("onnx", "onnx", "reading an ONNX model") from error
    try:
        model = onnx.load_model_from_string(data)
    except DecodeError as error:
        raise InputError(f"'{name}' is not an ONNX model, or it is cut off") from error
    if not model.HasField("graph"):
        raise InputError(f"'{name}' is not an ONNX model: it holds no graph")
    if not model.graph.node:
        raise InputError(f"'{name}' is an ONNX model whose graph has no nodes")
    graphs = (model.graph, *model.functions)
    texts = (model.producer_name, model.producer_version, *(entry.domain for entry in model.opset_import))
    # The protobuf package returns bytes where a text is not UTF-8.
    if not all(isinstance(text, str) for text in (*texts, *(text for graph in graphs for text in _texts(graph)))):
        raise InputError(f"'{name}' is not an ONNX model: it has names that are not text")
    return model


def _texts(graph: Any) -> Iterable[Any]:
    """All names in a graph or function, including those in its subgraphs."""
    for node in graph.node:
        yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
        yield from (attribute.name for attribute in node.attribute)
        yield from (text for inner in subgraphs(node) for text in _texts(inner))
    if hasattr(graph, "initializer"):
        yield from (weight.name for weight in graph.initializer)
        yield from (sparse.values.name for sparse in graph.sparse_initializer)
        for value in (*graph.input, *graph.output, *graph.value_info):
            yield from (value.name, *(dim.dim_param for dim in value.type.tensor_type.shape.dim))
    else:
        yield from (graph.name, graph.domain, *graph.input, *graph.output, *graph.attribute)


def _checked_dims(dims: Mapping[str, int], name: str) -> Mapping[str, int]:
    for dimension, size in dims.items():
        if not isinstance(size, int) or isinstance(size, bool) or not 0 < size < 2**31:
            label = f"dimension '{shown(dimension)}' of '{name}'"
            raise InputError(f"{label} cannot be {shown(size)}; it must be a whole number from 1 to 2**31 - 1")
    return dims


def _set_weights_aside(model: Any, name: str) -> frozenset[str]:
    """Turns all but small initializers into typed inputs, so that no weight is copied; returns names of all
    initializers.

    A file without its external weights has nothing else to offer, and shape inference needs only small values.
    """
    from onnx import TensorProto
    from onnx.helper import make_tensor_value_info

    graph = model.graph
    declared = {value.name for value in graph.input}
    weights = list(graph.initializer)
    names = [weight.name for weight in weights] + [weight.values.name for weight in graph.sparse_initializer]
    if len(set(names)) < len(names):
        repeated = Counter(names).most_common(1)[0][0]
        raise InputError(f"'{name}' has two initializers named '{shown(repeated)}'")
    del graph.initializer[:]
    for weight in weights:
        if weight.data_location != TensorProto.EXTERNAL and math.prod(weight.dims) <= MAX_ELEMENTS:
            graph.initializer.append(weight)
        elif weight.name not in declared:
            graph.input.append(make_tensor_value_info(weight.name, weight.data_type, weight.dims))
    for sparse in graph.sparse_initializer:
        if sparse.values.name not in declared:
            graph.input.append(make_tensor_value_info(sparse.values.name, sparse.values.data_type, sparse.dims))
    del graph.sparse_initializer[:]
    return frozenset(names)


def _inline_functions(model: Any, name: str) -> Any:
    if not model.functions:
        return model
    from onnx import inliner

    try:
        return inliner.inline_local_functions(model)
    except onnx_errors() as error:
        raise InputError(f"'{name}': its functions cannot be inlined: {first_line(error)}") from error


def _sort_nodes(model: Any, name: str) -> None:
    """Puts the nodes in a valid order. Raises InputError naming a cycle, or a value that nothing makes."""
    nodes = list(model.graph.node)
    known = {value.name for value in model.graph.input} | initializers_of(model.graph).keys()
    index: dict[str, int] = {}
    for value in (*known, *(value for node in nodes for value in node.output if value)):
        index.setdefault(value, len(index))
    tensors = [Tensor(name=value, size_bytes=0) for value in index]
    ops = []
    for position, node in enumerate(nodes):
        reads = list(values_read(node))
        for value in reads:
            if value not in index:
                raise InputError(f"'{name}': {label_of(node)} names '{shown(value)}', which nothing in the model makes")
        outputs = tuple(index[value] for value in node.output if value)
        inputs = tuple(index[value] for value in reads)
        # The position replaces the name, which may be missing or repeated here.
        ops.append(Op(name=label_of(node), kind="other", source=str(position), inputs=inputs, outputs=outputs))
    order = [int(op.source) for op in in_topological_order(ops, tensors, name)]
    if order != list(range(len(nodes))):
        del model.graph.node[:]
        model.graph.node.extend(nodes[position] for position in order)
