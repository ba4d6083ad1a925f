"""The contents of records of an ONNX file as Python values, and the errors that the onnx package raises about them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from placewright.importers.onnx.values import MAX_ELEMENTS, Array
from placewright.support.errors import shown


def small_array(tensor: Any) -> Array | None:
    """A TensorProto's content if it is small and in the file; None otherwise."""
    from onnx import TensorProto, numpy_helper

    if tensor.data_location == TensorProto.EXTERNAL or any(extent < 0 for extent in tensor.dims):
        return None
    if math.prod(tensor.dims) > MAX_ELEMENTS or tensor.data_type == TensorProto.STRING:
        return None
    try:
        content: Array = numpy_helper.to_array(tensor)
    except (ValueError, TypeError, KeyError, RuntimeError):
        # The content does not fit the stated shape: only the shape can be used.
        return None
    return content


def constant_value(attributes: Mapping[str, Any]) -> Array | None:
    """The value of a Constant node, in any of the forms its attributes take, if small."""
    import numpy as np

    if isinstance(attributes.get("value"), np.ndarray):
        return np.asarray(attributes["value"])
    for key, kind in (("value_int", int), ("value_ints", int), ("value_float", float), ("value_floats", float)):
        value = attributes.get(key)
        if all(isinstance(entry, kind) for entry in (value if isinstance(value, list) else [value])):
            return np.asarray(value, dtype=np.int64 if kind is int else np.float32)
    return None


def node_attributes(node: Any) -> dict[str, Any]:
    """A node's attributes as Python values: numbers, texts, lists of them, small tensors as arrays; None for others."""
    return {attribute.name: _attribute_value(attribute) for attribute in node.attribute}


def _attribute_value(attribute: Any) -> Any:
    from onnx import AttributeProto

    match attribute.type:
        case AttributeProto.FLOAT:
            return attribute.f
        case AttributeProto.INT:
            return attribute.i
        case AttributeProto.STRING:
            return attribute.s.decode(errors="replace")
        case AttributeProto.TENSOR:
            return small_array(attribute.t)
        case AttributeProto.FLOATS:
            return list(attribute.floats)
        case AttributeProto.INTS:
            return list(attribute.ints)
        case AttributeProto.STRINGS:
            return [text.decode(errors="replace") for text in attribute.strings]
    return None


def values_read(node: Any) -> Iterable[str]:
    """Names of the values a node reads: its inputs, then once each those that only its subgraphs take from outside."""
    yield from (value for value in node.input if value)
    captured = dict.fromkeys(value for graph in subgraphs(node) for value in _captured(graph))
    yield from (value for value in captured if value not in node.input)


def subgraphs(node: Any) -> Iterable[Any]:
    """The graphs among a node's attributes: branches and bodies."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def external_weights(graph: Any) -> list[Any]:
    """The weights of a graph, and of those inside its nodes, that are in files of their own."""
    from onnx.external_data_helper import uses_external_data

    weights = [*graph.initializer, *(attribute.t for node in graph.node for attribute in node.attribute)]
    inner = [weight for node in graph.node for inside in subgraphs(node) for weight in external_weights(inside)]
    return [*filter(uses_external_data, weights), *inner]


def _captured(graph: Any) -> Iterable[str]:
    """The names that a subgraph reads but does not define."""
    defined = {value.name for value in graph.input} | initializers_of(graph).keys()
    for node in graph.node:
        yield from (value for value in values_read(node) if value not in defined)
        defined.update(node.output)
    yield from (value.name for value in graph.output if value.name not in defined)


def initializers_of(graph: Any) -> dict[str, Any]:
    """The weights of a graph by name, including sparse ones."""
    dense = {weight.name: weight for weight in graph.initializer}
    return dense | {weight.values.name: weight for weight in graph.sparse_initializer}


def label_of(node: Any) -> str:
    """The name of a node for an error message: its own, or its operator and first output."""
    return f"{shown(node.op_type)} '{shown(node.name or next(iter(node.output), ''))}'"


def newest_opset() -> int:
    """The newest version of ONNX's own operators that the installed package knows."""
    from onnx import defs

    return int(defs.onnx_opset_version())


def onnx_errors() -> tuple[type[Exception], ...]:
    """The errors that the onnx package raises about a model it cannot work with."""
    from onnx import checker, defs, shape_inference

    own = (checker.ValidationError, defs.SchemaError, shape_inference.InferenceError)
    return (*own, RuntimeError, ValueError, TypeError, KeyError, IndexError, MemoryError)


def first_line(error: Exception) -> str:
    """The first line of an error."""
    return (str(error).strip().splitlines() or ["unknown reason"])[0]
