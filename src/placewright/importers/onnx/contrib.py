"""Output types of the com.microsoft operators that ONNX Runtime's optimiser and quantiser insert into models.

Source: docs/ContribOperators.md of ONNX Runtime.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from placewright.importers.onnx.attributes import query_key_value

Shape = tuple[int, ...]
#: Shape and TensorProto.DataType of an output; the type 0 is that of the first input.
Typed = tuple[Shape, int]

_UINT8, _INT32 = 2, 6
#: Contrib operators whose output has the shape of their first input.
_LIKE_FIRST_INPUT = frozenset(
    {
        *("BiasAdd", "BiasDropout", "BiasGelu", "BiasSoftmax", "FastGelu", "Gelu", "GemmaRotaryEmbedding", "GroupNorm"),
        *(
            "Inverse",
            "NhwcFusedActivation",
            "QLinearLeakyRelu",
            "QLinearSigmoid",
            "QLinearSoftmax",
            "QuickGelu",
            "RotaryEmbedding",
            "SimplifiedLayerNormalization",
        ),
        *("SkipGroupNorm", "SkipLayerNormalization", "SkipSimplifiedLayerNormalization", "LayerNormalization"),
        *("QuantizeLinear", "DequantizeLinear", "GatedRelativePositionBias"),
    }
)
#: Contrib operators with the shapes of a standard one: its name, and which of their inputs it takes.
_LIKE_STANDARD: Mapping[str, tuple[str, Sequence[int] | slice]] = {
    "FusedConv": ("Conv", (0, 1, 2)),
    "NhwcFusedConv": ("Conv", (0, 1)),
    "QLinearConv": ("Conv", (0, 3)),
    "FusedGemm": ("Gemm", (0, 1, 2)),
    "QGemm": ("Gemm", (0, 3)),
    "QLinearAdd": ("Add", (0, 3)),
    "QLinearMul": ("Mul", (0, 3)),
    "QLinearWhere": ("Where", (0, 1, 4)),
    "QLinearConcat": ("Concat", slice(2, None, 3)),
    "QLinearAveragePool": ("AveragePool", (0,)),
    "QLinearGlobalAveragePool": ("GlobalAveragePool", (0,)),
    "NhwcMaxPool": ("MaxPool", (0,)),
    "MatMulIntegerToFloat": ("MatMul", (0, 1)),
    "MatMulInteger16": ("MatMul", (0, 1)),
    "DynamicQuantizeMatMul": ("MatMul", (0, 1)),
}
#: Attributes of the contrib operator that the standard one does not have.
_FUSED_ATTRIBUTES = frozenset(
    {"activation", "activation_params", "activation_alpha", "activation_beta", "activation_gamma", "channels_last"}
)
#: Positions of the inputs that determine the output's element type: the first that is given, or else input 0.
_TYPE_FROM: Mapping[str, tuple[int, ...]] = {
    "QuantizeLinear": (2,),
    "DequantizeLinear": (1,),
    "QLinearWhere": (1,),
    "QLinearConcat": (1,),
    "MatMulIntegerToFloat": (2,),
    "QGemm": (8, 1),
    "GatherBlockQuantized": (2,),
    "QAttention": (3,),
    "EmbedLayerNormalization": (2,),
    "QEmbedLayerNormalization": (8,),
}
_CHANNELS_LAST = frozenset({"NhwcFusedConv", "NhwcMaxPool"})


def standard_form(node: Any) -> Any | None:
    """The node itself if its operator is standard, or a standard node of the same shapes, or None.

    Where the node's channels come last, those of the standard node come second: see `has_channels_last`.
    """
    if node.domain in ("", "ai.onnx", "ai.onnx.ml", "ai.onnx.preview.training"):
        return node
    if node.op_type not in _LIKE_STANDARD:
        return None
    from onnx.helper import make_node

    op_type, places = _LIKE_STANDARD[node.op_type]
    names = list(node.input)
    read = names[places] if isinstance(places, slice) else [names[place] for place in places if place < len(names)]
    form = make_node(op_type, read, node.output[:1])
    form.attribute.extend(entry for entry in node.attribute if entry.name not in _FUSED_ATTRIBUTES)
    return form


def has_channels_last(node: Any) -> bool:
    """True if the data of a contrib operator is (batch, *extents, channels)."""
    return node.op_type in _CHANNELS_LAST or any(
        entry.name == "channels_last" and entry.i != 0 for entry in node.attribute
    )


def output_type(op_type: str, types: Sequence[int]) -> int:
    """TensorProto.DataType of a contrib operator's first output, from those of its inputs; 0 where it is not known."""
    if op_type == "MatMulInteger16":
        return _INT32
    known = [types[place] for place in _TYPE_FROM.get(op_type, ()) if place < len(types)]
    return next((kind for kind in known if kind), _UINT8 if op_type == "QuantizeLinear" else types[0] if types else 0)


def contrib_outputs(
    node: Any, attributes: Mapping[str, Any], inputs: Sequence[Shape | None], types: Sequence[int]
) -> Sequence[Typed]:
    """The types of the node's first outputs by the rules here; none where there is no rule. inputs, types: of its
    inputs, None and 0 where unknown."""
    if not inputs or inputs[0] is None:
        return ()
    if node.op_type in ("BatchNormalization", "Dropout"):
        return [(shape, 0) for shape in _older_outputs(node, inputs)]
    if node.domain in ("", "ai.onnx"):
        return ()
    if node.op_type in _LIKE_FIRST_INPUT:
        return [(shape, 0) for shape in _like_first(node, inputs[0])]
    rule = _RULES.get(node.op_type)
    try:
        found = () if rule is None else rule(attributes, inputs, types)
    except (TypeError, KeyError, IndexError, ValueError, ZeroDivisionError):
        # The node lacks an input or attribute that its definition requires; its outputs stay open and are reported.
        return ()
    return found if all(type(extent) is int for shape, _ in found for extent in shape) else ()


def _older_outputs(node: Any, inputs: Sequence[Shape | None]) -> Sequence[Shape]:
    """Shapes of further outputs: BatchNormalization's statistics up to version 9, one per channel, and masks, like
    their data."""
    first, second = inputs[0] or (), inputs[1] if len(inputs) > 1 else None
    extra = first if node.op_type == "Dropout" or second is None else second
    return (first, *[extra] * (len(node.output) - 1))


def _like_first(node: Any, shape: Shape) -> Sequence[Shape]:
    """Shapes of a skip normalisation's outputs: the last, a sum, is like its data; those in between have one value per
    row."""
    if not node.op_type.startswith("Skip"):
        return (shape,)
    per_row = (*shape[:-1], 1)
    return (shape, per_row, per_row, shape)


def _fused_matmul(attributes: Mapping[str, Any], inputs: Sequence[Any], types: Sequence[int]) -> Sequence[Typed]:
    first, second = inputs[:2]
    if len(first) < 2 or len(second) < 2 or attributes.get("transBatchA", 0) or attributes.get("transBatchB", 0):
        return ()
    rows = first[-1] if attributes.get("transA", 0) else first[-2]
    columns = second[-2] if attributes.get("transB", 0) else second[-1]
    batch = first[:-2] if len(first) >= len(second) else second[:-2]
    return [((*batch, rows, columns), 0)]


def _matmul_packed(attributes: Mapping[str, Any], inputs: Sequence[Any], types: Sequence[int]) -> Sequence[Typed]:
    return [((*inputs[0][:-1], attributes["N"]), 0)]


def _attention(
    attributes: Mapping[str, Any], inputs: Sequence[Any], types: Sequence[int], past_place: int = 4
) -> Sequence[Typed]:
    """Types of an attention: batch and length of the input, the hidden size of the value projection: a third of the
    weight's columns unless stated. Keys and values of all tokens so far are kept for the next token."""
    batch, length, _ = inputs[0]
    sizes = attributes.get("qkv_hidden_sizes") or [inputs[1][-1] // 3] * 3
    heads = attributes["num_heads"]
    past = inputs[past_place][-2] if len(inputs) > past_place and inputs[past_place] else 0
    return [((batch, length, sizes[2]), 0), ((2, batch, heads, past + length, sizes[0] // heads), 0)]


def _heads_joined(
    op_type: str, attributes: Mapping[str, Any], inputs: Sequence[Any], types: Sequence[int]
) -> Sequence[Typed]:
    """A row for each of the query's, with the results of all heads next to each other."""
    query, _, value = query_key_value(op_type, attributes, inputs)
    rows = inputs[0][:1] if op_type == "PackedMultiHeadAttention" else inputs[0][:2]
    return [((*rows, query[1] * value[3]), 0)]


def _embedding(attributes: Mapping[str, Any], inputs: Sequence[Any], types: Sequence[int]) -> Sequence[Typed]:
    """The normalised sum of embeddings, the number of tokens in each sequence, and the sum itself."""
    (batch, length), hidden = inputs[0], inputs[2][1]
    return [((batch, length, hidden), 0), ((batch,), _INT32), ((batch, length, hidden), 0)]


def _lstm(attributes: Mapping[str, Any], inputs: Sequence[Any], types: Sequence[int]) -> Sequence[Typed]:
    """All states, the last state, and the last cell."""
    length, batch, _ = inputs[0]
    directions, hidden = inputs[1][0], attributes["hidden_size"]
    last = (directions, batch, hidden)
    return [((length, *last), 0), (last, 0), (last, 0)]


def _gather_blocks(attributes: Mapping[str, Any], inputs: Sequence[Any], types: Sequence[int]) -> Sequence[Typed]:
    """Rows of a table; in one of bytes the last axis is packed, with several elements per byte."""
    table, indices = inputs[:2]
    packed = 8 // attributes.get("bits", 4) if types[0] == _UINT8 else 1
    axis = attributes.get("gather_axis", 0) % len(table)
    return [((*table[:axis], *indices, *table[axis + 1 : -1], table[-1] * packed), 0)]


def _reduce_mean(attributes: Mapping[str, Any], inputs: Sequence[Any], types: Sequence[int]) -> Sequence[Typed]:
    rank = len(inputs[0])
    axes = {axis % rank for axis in attributes.get("axes") or range(rank)}
    keeps = bool(attributes.get("keepdims", 1))
    shape = tuple(1 if axis in axes else extent for axis, extent in enumerate(inputs[0]) if keeps or axis not in axes)
    return [(shape, 0)]


_RULES: Mapping[str, Callable[..., Sequence[Typed]]] = {
    "FusedMatMul": _fused_matmul,
    "MatMulNBits": _matmul_packed,
    "MatMulBnb4": _matmul_packed,
    "Attention": _attention,
    "QAttention": partial(_attention, past_place=8),
    **{
        operator: partial(_heads_joined, operator)
        for operator in ("GroupQueryAttention", "MultiHeadAttention", "PackedMultiHeadAttention")
    },
    "EmbedLayerNormalization": _embedding,
    "QEmbedLayerNormalization": _embedding,
    "DynamicQuantizeLSTM": _lstm,
    "GatherBlockQuantized": _gather_blocks,
    "QLinearReduceMean": _reduce_mean,
}
