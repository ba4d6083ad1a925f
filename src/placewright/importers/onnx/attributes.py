"""The attributes of an ONNX node that costs and learners need beyond its kind, in placewright's words
(docs/formats.md)."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from placewright.importers.onnx.einsum import Contraction, contraction
from placewright.importers.onnx.values import Array

Shape = tuple[int, ...]
Attributes = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    """A node in the form that the rules read.

    inputs, outputs: fixed shapes; None for a missing optional one, or one without a shape. values: contents of the
    inputs that are small and constant, None for the others. version: of the operator set the node belongs to.
    first_is_weight: the first input is a parameter.
    """

    op_type: str
    domain: str
    attributes: Mapping[str, Any]
    inputs: Sequence[Shape | None]
    outputs: Sequence[Shape | None]
    values: Sequence[Array | None]
    version: int
    num_outputs_read: int
    first_is_weight: bool

    def shape(self, place: int) -> Shape:
        """The shape of a required input. Raises ValueError when it is missing."""
        shape = self.inputs[place] if place < len(self.inputs) else None
        if shape is None:
            raise ValueError(f"{self.op_type} has no input {place}")
        return shape

    def has(self, place: int) -> bool:
        return place < len(self.inputs) and self.inputs[place] is not None


def attributes_of(node: NodeView, kind: str) -> Attributes:
    """The attributes of the node's kind; none when the node does not fit its operator's definition."""
    rule = _RULES.get(kind)
    try:
        return rule(node) if rule is not None else {}
    except (ValueError, IndexError, KeyError, TypeError, AttributeError, ZeroDivisionError):
        return {}


def _matmul(node: NodeView) -> Attributes:
    if node.op_type == "Einsum":
        return _einsum(node)
    if node.op_type in ("MatMulNBits", "MatMulBnb4"):
        rows, k, n = math.prod(node.shape(0)[:-1]), node.attributes["K"], node.attributes["N"]
        return {"batch": 1, "m": rows, "n": n, "k": k, "bias": node.has(5)}
    first = node.shape(0)
    second = node.shape(3 if node.op_type in ("QLinearMatMul", "QGemm") else 1)
    first = (1, *first) if len(first) == 1 else first
    second = (*second, 1) if len(second) == 1 else second
    m, k = _rows_columns(first, node.attributes.get("transA", 0))
    n = _rows_columns(second, node.attributes.get("transB", 0))[1]
    batch = math.prod(_broadcast(first[:-2], second[:-2]))
    if len(second) == 2 and not node.attributes.get("transA", 0):
        # There is one matrix for the whole batch: the rows of all its members are multiplied at once.
        batch, m = 1, batch * m
    bias_place = {"Gemm": 2, "FusedGemm": 2, "QGemm": 6, "DynamicQuantizeMatMul": 4, "MatMulIntegerToFloat": 6}
    return {"batch": batch, "m": m, "n": n, "k": k, "bias": node.has(bias_place.get(node.op_type, 99))}


def _rows_columns(shape: Shape, transposed: int) -> tuple[int, int]:
    return (shape[-1], shape[-2]) if transposed else (shape[-2], shape[-1])


def _broadcast(first: Shape, second: Shape) -> list[int]:
    rank = max(len(first), len(second))
    padded = [(1,) * (rank - len(shape)) + shape for shape in (first, second)]
    return [max(pair) if 0 not in pair else 0 for pair in zip(*padded, strict=True)]


def contraction_of(node: NodeView) -> Contraction:
    """The contraction of an Einsum. Raises ValueError where it does not fit its inputs."""
    return contraction(node.attributes["equation"], node.inputs)


def _einsum(node: NodeView) -> Attributes:
    """The sizes of an Einsum's only product of two matrices, with FLOPs if sums precede it; else the FLOPs of all."""
    found = contraction_of(node)
    if len(found.products) > 1:
        return {"flops": found.flops}
    (first, second, result), shared = found.products[0], set.intersection(*map(set, found.operands))
    batch, m, n, k = map(found.size, (shared & result, first - shared, second - shared, shared - result))
    stated = {} if found.flops == 2 * batch * m * n * k else {"flops": found.flops}
    return {"batch": batch, "m": m, "n": n, "k": k, "bias": False, **stated}


def _conv(node: NodeView) -> Attributes:
    weight = node.shape(3 if node.op_type == "QLinearConv" else 1)
    causal, transposed = node.op_type == "CausalConvWithState", node.op_type == "ConvTranspose"
    kernel = list(weight[2:])
    groups = weight[0] if causal else node.attributes.get("group", 1)
    in_channels, out_channels = weight[1] * groups, weight[0]
    if transposed:
        in_channels, out_channels = weight[0], weight[1] * groups
    window = _window(node, kernel)
    return {
        **(window | {"padding": [kernel[0] - 1, 0]} if causal else window),
        "groups": groups,
        "transposed": transposed,
        "in_channels": in_channels,
        "out_channels": out_channels,
    }


def _window(node: NodeView, kernel: Sequence[int]) -> Attributes:
    """The kernel, stride, padding and dilation; padding has one entry per axis, or begins then ends if they differ."""
    ones = [1] * len(kernel)
    stride = node.attributes.get("strides", ones)
    dilation = node.attributes.get("dilations", ones)
    pads = node.attributes.get("pads", [0] * 2 * len(kernel))
    if node.attributes.get("auto_pad", "NOTSET").startswith("SAME"):
        pads = _same_padding(node, kernel, stride, dilation)
    begins, ends = list(pads[: len(kernel)]), list(pads[len(kernel) :])
    padding = begins if begins == ends else begins + ends
    return {"kernel": list(kernel), "stride": list(stride), "padding": padding, "dilation": list(dilation)}


def _same_padding(node: NodeView, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]) -> list[int]:
    """The padding that makes the output ceil(input / stride) long, the odd one before or after as auto_pad says."""
    totals = [
        max(0, (-(-length // step) - 1) * step + (size - 1) * gap + 1 - length)
        for length, size, step, gap in zip(node.shape(0)[2:], kernel, stride, dilation, strict=True)
    ]
    smaller, larger = [total // 2 for total in totals], [total - total // 2 for total in totals]
    return larger + smaller if node.attributes["auto_pad"] == "SAME_LOWER" else smaller + larger


def _attention(node: NodeView) -> Attributes:
    if node.domain == "com.microsoft" and node.op_type in ("Attention", "QAttention"):
        return _projecting_attention(node)
    query, key, value = query_key_value(node.op_type, node.attributes, node.inputs)
    past = _past_length(node, {"MultiHeadAttention": 6, "GroupQueryAttention": 3}.get(node.op_type, 4), rank=4)
    attributes = {
        "batch": query[0],
        "heads": query[1],
        "kv_heads": key[1],
        "query_length": query[2],
        "key_length": key[2] + past,
        "head_dim": query[3],
        "value_dim": value[3],
        "causal": _is_causal(node),
    }
    # ONNX's own Attention lets the first query see the past keys and the first one after them, however many there are.
    begins = node.op_type == "Attention" and attributes["causal"] and query[2] != key[2]
    return {**attributes, "past_length": past} if begins else attributes


def query_key_value(
    op_type: str, attributes: Mapping[str, Any], inputs: Sequence[Shape | None]
) -> tuple[Shape, Shape, Shape]:
    """The shapes of query, key and value as (batch, heads, length, size), in whatever way the inputs pack them.

    Heads may be adjacent, (batch, length, heads x size), or query, key and value of a head, or its key and value:
    (batch, length, heads, 3 or 2, size). GroupQueryAttention may have the heads of all three adjacent in its query.
    Raises ValueError, TypeError or an arithmetic error for other shapes.
    """
    query, key, value = (shape or () for shape in (*inputs, None, None, None)[:3])
    heads: int = attributes.get("q_num_heads") or attributes.get("num_heads") or (query[1] if len(query) == 4 else 0)
    kv_heads: int = attributes.get("kv_num_heads") or heads
    if op_type == "PackedMultiHeadAttention":
        # The tokens of all sequences are in one row; the padded positions of tokens show how many there can be.
        batch, length = inputs[4] or ()
        query, key, value = ((batch, length, *shape[1:]) if shape else () for shape in (query, key, value))
    if not key and len(query) == 3:
        batch, length, width = query
        size = width // (heads + 2 * kv_heads)
        grouped = (batch, kv_heads, length, size)
        return (batch, heads, length, size), grouped, grouped
    parts = query, key or query, value or key or query
    first, second, third = map(_heads_apart, parts, (heads, kv_heads, kv_heads))
    return first, second, third


def _heads_apart(shape: Shape, heads: int) -> Shape:
    if len(shape) == 5:
        batch, length, heads, _, size = shape
        return batch, heads, length, size
    if len(shape) == 3:
        batch, length, width = shape
        return batch, heads, length, width // heads
    batch, heads, length, size = shape
    return batch, heads, length, size


def _past_length(node: NodeView, place: int, rank: int) -> int:
    """The number of keys that are kept from earlier tokens, where the input at that place holds them."""
    past = node.inputs[place] if node.has(place) else None
    return past[-2] if past is not None and len(past) == rank else 0


def _is_causal(node: NodeView) -> bool:
    return node.op_type == "GroupQueryAttention" or bool(
        node.attributes.get("is_causal", 0) or node.attributes.get("unidirectional", 0)
    )


def _projecting_attention(node: NodeView) -> Attributes:
    """The attributes of ONNX Runtime's Attention, which also holds the projections of query, key and value."""
    batch, length, _ = node.shape(0)
    heads = node.attributes["num_heads"]
    sizes = node.attributes.get("qkv_hidden_sizes") or [node.shape(1)[-1] // 3] * 3
    past = _past_length(node, 8 if node.op_type == "QAttention" else 4, rank=5)
    return {
        "batch": batch,
        "heads": heads,
        "kv_heads": heads,
        "query_length": length,
        "key_length": length + past,
        "head_dim": sizes[0] // heads,
        "value_dim": sizes[2] // heads,
        "causal": _is_causal(node),
    }


def _rnn(node: NodeView) -> Attributes:
    first, second, input_size = node.shape(0)
    length, batch = (second, first) if node.attributes.get("layout", 0) else (first, second)
    cell = {"LSTM": "lstm", "DynamicQuantizeLSTM": "lstm", "GRU": "gru"}.get(node.op_type)
    return {
        "cell": cell or node.attributes.get("activations", ["Tanh"])[0].lower(),
        "batch": batch,
        "length": length,
        "input_size": input_size,
        "hidden_size": node.attributes.get("hidden_size") or node.shape(2)[-1],
        "layers": 1,
        "directions": 2 if node.attributes.get("direction", "forward") == "bidirectional" else 1,
    }


#: Function of a normalisation by operator. Two families without a name of their own count as the one with the same
#: arithmetic: a p-norm squares, sums and scales like RMS, a mean-variance normalisation is a layer normalisation.
_NORMALIZATIONS = {
    "BatchNormalization": "batch",
    "EmbedLayerNormalization": "layer",
    "GroupNorm": "group",
    "GroupNormalization": "group",
    "InstanceNormalization": "instance",
    "LRN": "local_response",
    "LayerNormalization": "layer",
    "LpNormalization": "rms",
    "MeanVarianceNormalization": "layer",
    "QEmbedLayerNormalization": "layer",
    "RMSNormalization": "rms",
    "SimplifiedLayerNormalization": "rms",
    "SkipGroupNorm": "group",
    "SkipLayerNormalization": "layer",
    "SkipSimplifiedLayerNormalization": "rms",
}


def _normalization(node: NodeView) -> Attributes:
    groups = node.attributes.get("num_groups", node.attributes.get("groups"))
    return {"function": _NORMALIZATIONS[node.op_type], **({"groups": groups} if groups else {})}


def _pooling(node: NodeView) -> Attributes:
    is_max = "Max" in node.op_type or node.attributes.get("mode") == "max"
    function = "max" if is_max else "average"
    if "Global" in node.op_type:
        kernel = list(node.shape(0)[1:-1] if node.attributes.get("channels_last", 0) else node.shape(0)[2:])
        zeros, ones = [0] * len(kernel), [1] * len(kernel)
        return {"function": function, "kernel": kernel, "stride": ones, "padding": zeros, "global": True}
    if "Roi" in node.op_type:
        return {"function": function, "global": False}
    window = _window(node, node.attributes["kernel_shape"])
    return {"function": function, **{key: window[key] for key in ("kernel", "stride", "padding")}, "global": False}


def _softmax(node: NodeView) -> Attributes:
    """The axes of a softmax; before version 13 all axes from the given one on were one row."""
    rank = len(node.shape(0))
    version = node.attributes.get("opset", 13) if node.domain else node.version
    if version < 13:
        return {"axes": list(range(node.attributes.get("axis", 1) % rank, rank))}
    return {"axes": [node.attributes.get("axis", -1) % rank]}


_REDUCTIONS = {
    "ArgMax": "argmax",
    "ArgMin": "argmin",
    "CumProd": "cumprod",
    "CumSum": "cumsum",
    "Einsum": "sum",
    "NegativeLogLikelihoodLoss": "loss",
    "QLinearReduceMean": "mean",
    "ReduceL1": "norm",
    "ReduceL2": "norm",
    "ReduceLogSum": "logsum",
    "ReduceLogSumExp": "logsumexp",
    "ReduceMax": "max",
    "ReduceMean": "mean",
    "ReduceMin": "min",
    "ReduceProd": "prod",
    "ReduceSum": "sum",
    "ReduceSumSquare": "norm",
    "SoftmaxCrossEntropyLoss": "loss",
}


def _reduction(node: NodeView) -> Attributes:
    rank = len(node.shape(0))
    every = list(range(rank))
    axes = node.attributes.get("axes")
    if node.op_type == "Einsum":
        found = contraction_of(node)
        axes = [place for place, axis in enumerate(found.operands[0]) if axis not in found.result]
    if node.op_type.startswith("Arg"):
        axes = [node.attributes.get("axis", 0)]
    elif node.op_type.startswith(("Reduce", "Cum")) and len(node.values) > 1 and node.values[1] is not None:
        axes = node.values[1].reshape(-1).tolist()
    return {"function": _REDUCTIONS[node.op_type], "axes": sorted({axis % rank for axis in axes}) if axes else every}


def _sort(node: NodeView) -> Attributes:
    """The work of a sort, log2(n) comparisons per element, where n is not the last axis of the first input."""
    if node.op_type == "NonMaxSuppression":
        shape, axis = node.shape(1), -1
    else:
        shape, axis = node.shape(0), node.attributes.get("axis", -1 if node.op_type == "TopK" else None)
        if axis in (-1, len(shape) - 1):
            return {}
    length = math.prod(shape) if axis is None else shape[axis]
    return {"flops": math.prod(shape) * max(1, length - 1).bit_length()}


#: Elementwise functions whose names are not the operators' in snake case.
_ELEMENTWISE = {"IsInf": "isinf", "IsNaN": "isnan", "PRelu": "prelu", "SwiGLU": "swiglu", "Sum": "add"}


def _elementwise(node: NodeView) -> Attributes:
    operator = node.op_type.removeprefix("QLinear")
    stated = {}
    if operator == "Einsum" and (flops := contraction_of(node).flops) != math.prod(node.outputs[0] or ()):
        stated = {"flops": flops}
    name = _ELEMENTWISE.get(operator) or re.sub(r"(?<=[a-z])(?=[A-Z])", "_", operator).lower()
    return {"function": name, **stated}


def _other(node: NodeView) -> Attributes:
    """The attributes of an Einsum of one operand that only reads a diagonal; nothing is known of other operators."""
    return {"flops": contraction_of(node).flops} if node.op_type == "Einsum" else {}


def _optimizer(node: NodeView) -> Attributes:
    return {"function": {"Momentum": "sgd", "Adam": "adam", "Adagrad": "adagrad"}[node.op_type]}


_RULES: Mapping[str, Callable[[NodeView], Attributes]] = {
    "matmul": _matmul,
    "conv": _conv,
    "attention": _attention,
    "rnn": _rnn,
    "normalization": _normalization,
    "pooling": _pooling,
    "softmax": _softmax,
    "reduction": _reduction,
    "sort": _sort,
    "elementwise": _elementwise,
    "optimizer": _optimizer,
    "other": _other,
}
