"""A builder for the fused networks: tensors of one type, mostly int8, and one op per kernel."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from placewright.graph import Graph
from placewright.importers.builder import GraphBuilder, tensor_bytes

#: Sums of int8 products are int32, and so are the biases that are added to them.
BIAS_BYTES = 4


class FusedBuilder:
    """A graph of ops that make one tensor each. dtype: of weights and results by default."""

    def __init__(self, name: str, dtype: str = "int8") -> None:
        self._graph, self.dtype = GraphBuilder(name), dtype
        self._shapes: dict[int, tuple[int, ...]] = {}

    def shape(self, tensor: int) -> tuple[int, ...]:
        return self._shapes[tensor]

    def input(self, name: str, shape: tuple[int, ...], dtype: str | None = None) -> int:
        """Add a tensor fed from outside."""
        return self._op(name, "input", [], shape, {}, dtype)

    def op(
        self,
        name: str,
        kind: str,
        inputs: Sequence[int],
        shape: tuple[int, ...],
        *,
        attributes: Mapping[str, Any] | None = None,
        weight_bytes: int = 0,
        weight_shape: tuple[int, ...] | None = None,
        weight_name: str = "weight",
        dtype: str | None = None,
    ) -> int:
        """Add an op with its weights, including those of its bias and folded normalisation; return its result."""
        read = list(inputs)
        if weight_bytes:
            full_name = f"{name}.{weight_name}"
            weight = self._graph.add_tensor(
                full_name, size_bytes=weight_bytes, shape=weight_shape, dtype=self.dtype, role="parameter"
            )
            read.append(weight)
        return self._op(name, kind, read, shape, dict(attributes or {}), dtype)

    def conv(self, name: str, inputs: Sequence[int], channels: int, kernel: int, stride: int = 1) -> int:
        """Add a convolution with bias, normalisation, residual sum and activation folded in; the first input is
        convolved, a second one is added."""
        _, depth, height, width = self.shape(inputs[0])
        shape = (1, channels, -(-height // stride), -(-width // stride))
        attributes = {
            "kernel": [kernel, kernel],
            "stride": [stride, stride],
            "padding": [kernel // 2, kernel // 2],
            "dilation": [1, 1],
            "groups": 1,
            "in_channels": depth,
            "out_channels": channels,
        }
        weights = depth * channels * kernel**2
        return self.op(name, "conv", inputs, shape, attributes=attributes, weight_bytes=weights + BIAS_BYTES * channels)

    def linear(self, name: str, tensor: int, features: int, *, bias: bool) -> int:
        """Add a matrix product with a weight."""
        *rows, depth = self.shape(tensor)
        attributes = {"batch": 1, "m": math.prod(rows), "n": features, "k": depth, "bias": bias}
        weights = tensor_bytes((depth, features), self.dtype) + (BIAS_BYTES * features if bias else 0)
        return self.op(name, "matmul", [tensor], (*rows, features), attributes=attributes, weight_bytes=weights)

    def build(self, output: int, source: str) -> Graph:
        """Return the graph whose result is `output`. source: the paper that the network is from."""
        self._graph.change_tensor(output, is_output=True)
        metadata = {"framework": "placewright", "mode": "inference", "batch_size": 1, "source": source}
        return self._graph.build(metadata)

    def _op(
        self,
        name: str,
        kind: str,
        inputs: Sequence[int],
        shape: tuple[int, ...],
        attributes: Mapping[str, Any],
        dtype: str | None,
    ) -> int:
        dtype = dtype or self.dtype
        size = tensor_bytes(shape, dtype)
        made = self._graph.add_tensor(name, size_bytes=size, shape=shape, dtype=dtype)
        self._shapes[made] = shape
        module = name.rpartition(".")[0]
        self._graph.add_op(name, kind, inputs=inputs, outputs=[made], attributes=attributes, module=module)
        return made
