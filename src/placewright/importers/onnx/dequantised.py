"""The weights of an ONNX model that their only reader takes as stored, though the file dequantises them first.

ONNX Runtime fuses a DequantizeLinear into a matrix product that takes weights of 2, 4 or 8 bits (MatMulNBits), and into
products and convolutions of bytes (QLinearConv, QLinearMatMul, MatMulIntegerToFloat, QGemm). Elsewhere it computes the
dequantised weight in every step. The conditions are the main ones of its version 1.32 for the CPU.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from placewright.importers.onnx.records import node_attributes, values_read
from placewright.importers.onnx.shapes import Shapes

_BYTES = frozenset({"int8", "uint8"})
_PACKED = _BYTES | {"int4", "uint4", "int2", "uint2"}
_LEAST_BLOCK = 16
_STANDARD, _CONTRIB = ("", "ai.onnx"), "com.microsoft"


def is_dequantisation(node: Any) -> bool:
    """True if a node turns quantised values into floats."""
    is_named_so = node.op_type == "DequantizeLinear" and node.domain in (*_STANDARD, _CONTRIB)
    return is_named_so and len(node.input) > 1 and len(node.output) == 1


class StoredWeights:
    """Finds the weights of one model that are read as stored. shapes: the known shapes of its values."""

    def __init__(self, graph: Any, shapes: Shapes) -> None:
        self._shapes = shapes
        self._outputs = {value.name for value in graph.output}
        self._maker = {name: node for node in graph.node for name in node.output}
        self._readers: dict[str, list[Any]] = defaultdict(list)
        for node in graph.node:
            # A node may read a value twice, and its subgraphs may read values from outside.
            for name in (*node.input, *(set(values_read(node)) - set(node.input))):
                self._readers[name].append(node)

    def has(self, dequantisation: Any) -> bool:
        """True if the only reader of a dequantised constant takes the constant itself."""
        weight = dequantisation.output[0]
        if weight in self._outputs or len(self._readers[weight]) != 1:
            return False
        (reader,) = self._readers[weight]
        if reader.domain not in _STANDARD or weight not in reader.input or not reader.output:
            return False
        place, data = list(reader.input).index(weight), self._maker.get(reader.input[0])
        if data is not None and is_dequantisation(data):
            return self._is_of_bytes(reader, place)
        return place == 1 and self._is_plain_product(reader) and self._can_be_packed(dequantisation)

    def _is_plain_product(self, reader: Any) -> bool:
        """True if the reader is a matrix product of floats whose result is not quantised at once."""
        attributes = node_attributes(reader)
        turned = attributes.get("transA", 0) or attributes.get("transB", 0)
        is_bare = len(reader.input) == 2 and not turned and attributes.get("alpha", 1.0) == 1.0
        is_product = reader.op_type == "MatMul" or (reader.op_type == "Gemm" and is_bare)
        return is_product and all(node.op_type != "QuantizeLinear" for node in self._readers[reader.output[0]])

    def _can_be_packed(self, dequantisation: Any) -> bool:
        """True if MatMulNBits can hold a matrix: scaled as a whole, by columns, or by blocks of each column. False for
        one that the model quantises itself."""
        weight, scale = (self._shapes.shape(name) for name in dequantisation.input[:2])
        if weight is None or len(weight) != 2 or scale is None or self._stored(dequantisation) not in _PACKED:
            return False
        maker = self._maker.get(dequantisation.input[0])
        if maker is not None and maker.op_type == "QuantizeLinear":
            return False
        attributes = node_attributes(dequantisation)
        axis, block = attributes.get("axis", 1), attributes.get("block_size", 0)
        if not block:
            return not scale or (axis == 1 and scale == weight[1:])
        return axis == 0 and isinstance(block, int) and block >= _LEAST_BLOCK and block & (block - 1) == 0

    def _is_of_bytes(self, reader: Any, place: int) -> bool:
        """True if a product or convolution and all that it reads become one op of bytes."""
        factors = [self._maker.get(name) for name in reader.input[:2]]
        if len(factors) < 2 or not all(
            node is not None and is_dequantisation(node) and self._stored(node) in _BYTES for node in factors
        ):
            return False
        if reader.op_type == "Gemm":
            return self._is_plain(reader, factors[1])
        if reader.op_type == "Conv":
            result = reader.output[0]
            readers = self._readers[result]
            is_quantised = bool(readers) and all(node.op_type == "QuantizeLinear" for node in readers)
            return place > 0 and is_quantised and result not in self._outputs
        return reader.op_type == "MatMul" and place < 2

    def _is_plain(self, reader: Any, weight: Any) -> bool:
        """True if QGemm can replace a Gemm: it scales nothing, and takes bytes and their zero point."""
        attributes = node_attributes(reader)
        bias = self._maker.get(reader.input[2]) if len(reader.input) > 2 and reader.input[2] else weight
        scales = (attributes.get("alpha", 1.0), attributes.get("beta", 1.0))
        return scales == (1.0, 1.0) and len(weight.input) > 2 and bias is not None and is_dequantisation(bias)

    def _stored(self, dequantisation: Any) -> str | None:
        return self._shapes.dtype(dequantisation.input[0])
