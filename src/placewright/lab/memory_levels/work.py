"""The work of an op on a chip with a matrix engine and vector units: multiply-adds, and elements that pass the units.

Other cost models of the package count floating-point operations; here a special function is a number of passes of the
vector units over its elements, as a compiler for such chips would unroll it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from placewright.costs.flops import NoFormulaError, count_flops
from placewright.graph import Graph, Op, Tensor
from placewright.lab.memory_levels.chip import PS_PER_SECOND, Chip

_MATRIX_KINDS = frozenset({"matmul", "conv", "conv_backward", "attention", "attention_backward", "rnn", "rnn_backward"})
#: Passes over the elements. Softmax: maximum, difference, exponential, sum, division. Normalisation: two for the mean,
#: three for the variance, three to scale and shift. Functions such as GELU: a polynomial of about eight steps.
_SOFTMAX_PASSES, _NORMALIZATION_PASSES, _FUNCTION_PASSES = 5, 8, 8
_LONG_FUNCTIONS = frozenset(
    (
        *("gelu", "silu", "swish", "mish", "erf", "sigmoid", "tanh", "softplus", "elu", "selu", "celu"),
        *("exp", "log", "pow", "sin", "cos", "sqrt", "rsqrt"),
    )
)
#: Kinds that take time on no unit.
_FREE_KINDS = frozenset({"input", "view"})
_COUNTED_KINDS = frozenset({"pooling", "pooling_backward", "reduction", "sort", "optimizer"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Multiply-adds of the matrix engine, and elements times passes of the vector units."""

    macs: int
    elements: int


def work_of(op: Op, graph: Graph) -> Work:
    """Return the work of an op; for an op without a formula, one pass over its results."""
    inputs = [graph.tensors[index] for index in op.inputs]
    outputs = [graph.tensors[index] for index in op.outputs]
    if op.kind in _MATRIX_KINDS:
        try:
            return Work(macs=count_flops(_without_bias(op), inputs, outputs) // 2, elements=0)
        except NoFormulaError:
            return Work(macs=0, elements=_numel(outputs))
    return Work(macs=0, elements=_elements(op, inputs, outputs))


def _without_bias(op: Op) -> Op:
    """Return the op without its bias: the sums of products start from the bias, so that it costs nothing."""
    return replace(op, attributes={**op.attributes, "bias": False}) if op.attributes.get("bias") else op


def compute_ps(work: Work, chip: Chip) -> int:
    """Return the time of the two units one after the other, rounded up."""
    seconds = work.macs / chip.mac_rate + work.elements / chip.vector_rate
    return math.ceil(seconds * PS_PER_SECOND - 1e-6)


def _elements(op: Op, inputs: list[Tensor], outputs: list[Tensor]) -> int:
    if op.kind in _FREE_KINDS:
        return 0
    if op.kind in _COUNTED_KINDS:
        try:
            return count_flops(op, inputs, outputs)
        except NoFormulaError:
            return _numel(outputs)
    if op.kind.startswith("softmax"):
        return _SOFTMAX_PASSES * _numel(outputs)
    if op.kind.startswith("normalization"):
        return _NORMALIZATION_PASSES * _numel(outputs[:1])
    if op.kind == "elementwise" and op.attributes.get("function") in _LONG_FUNCTIONS:
        return _FUNCTION_PASSES * _numel(outputs)
    # A reshape that is written out only moves bytes.
    return 0 if op.attributes.get("function") == "reshape" else _numel(outputs)


def _numel(tensors: list[Tensor]) -> int:
    return sum(tensor.size_bytes if tensor.shape is None else math.prod(tensor.shape) for tensor in tensors)
