"""BERT (Devlin et al. 2018) in int8, with matrix products, biases and reshapes as separate ops: 376 of them.

The EGRL paper counts 376 nodes and does not say which; 30 per layer and 16 outside of them are one way to arrive there.
"""

from __future__ import annotations

from placewright.graph import Graph
from placewright.lab.datasets.fused.layers import BIAS_BYTES, FusedBuilder

_LAYERS, _HIDDEN, _HEADS, _INNER = 12, 768, 12, 3072
_VOCABULARY, _POSITIONS, _SEGMENTS = 30522, 512, 2


def bert_base(tokens: int) -> Graph:
    """Build BERT-base with a classifier of two classes, for a number of tokens."""
    net = FusedBuilder(f"bert-base-{tokens}-int8")
    mask = _mask(net, tokens)
    hidden = _embeddings(net, tokens)
    for layer in range(_LAYERS):
        name = f"encoder.{layer}"
        context = _attention(net, f"{name}.attention", hidden, mask)
        hidden = _output(net, f"{name}.attention.output", context, hidden)
        inner = _biased(net, f"{name}.intermediate", hidden, _INNER)
        inner = _each(net, f"{name}.intermediate.gelu", inner, "gelu")
        hidden = _output(net, f"{name}.output", inner, hidden)
    pooled = net.op("pooler.slice", "copy", [hidden], (1, _HIDDEN), attributes={"function": "slice"})
    pooled = _each(net, "pooler.tanh", _biased(net, "pooler", pooled, _HIDDEN), "tanh")
    classes = net.linear("classifier", pooled, 2, bias=True)
    source = "Devlin et al., BERT: Pre-training of Deep Bidirectional Transformers, NAACL 2019"
    return net.build(classes, source)


def _mask(net: FusedBuilder, tokens: int) -> int:
    """Add the attention mask as the term that is added to the scores: 0 for words, else a large negative number."""
    mask = net.input("attention_mask", (1, tokens), "int32")
    for axis, shape in enumerate([(1, 1, tokens), (1, 1, 1, tokens)], start=1):
        attributes = {"function": "reshape"}
        mask = net.op(f"mask.unsqueeze{axis}", "copy", [mask], shape, attributes=attributes, dtype="int32")
    mask = net.op("mask.cast", "copy", [mask], net.shape(mask), attributes={"function": "cast"})
    return _each(net, "mask.scale", _each(net, "mask.invert", mask, "sub"), "mul")


def _embeddings(net: FusedBuilder, tokens: int) -> int:
    words, places, segments = (
        _lookup(net, name, rows, tokens)
        for name, rows in (("word", _VOCABULARY), ("position", _POSITIONS), ("segment", _SEGMENTS))
    )
    total = _sum(net, "embeddings.add1", words, places)
    return _normalized(net, "embeddings.norm", _sum(net, "embeddings.add2", total, segments))


def _lookup(net: FusedBuilder, name: str, rows: int, tokens: int) -> int:
    indices = net.input(f"{name}_ids", (1, tokens), "int32")
    return net.op(
        f"embeddings.{name}",
        "embedding",
        [indices],
        (1, tokens, _HIDDEN),
        weight_bytes=rows * _HIDDEN,
        weight_shape=(rows, _HIDDEN),
    )


def _attention(net: FusedBuilder, name: str, hidden: int, mask: int) -> int:
    tokens, depth = net.shape(hidden)[1], _HIDDEN // _HEADS
    query, key, value = (_head(net, f"{name}.{role}", hidden) for role in ("query", "key", "value"))
    scores_shape = (1, _HEADS, tokens, tokens)
    product = {"batch": _HEADS, "m": tokens, "n": tokens, "k": depth}
    scores = net.op(f"{name}.scores", "matmul", [query, key], scores_shape, attributes=product)
    scores = _each(net, f"{name}.scale", scores, "mul")
    scores = _sum(net, f"{name}.mask", scores, mask)
    weights = net.op(f"{name}.softmax", "softmax", [scores], scores_shape)
    product = {"batch": _HEADS, "m": tokens, "n": depth, "k": tokens}
    context = net.op(f"{name}.context", "matmul", [weights, value], (1, _HEADS, tokens, depth), attributes=product)
    context = _transposed(net, f"{name}.transpose", context, (1, tokens, _HEADS, depth))
    return _reshaped(net, f"{name}.reshape", context, (1, tokens, _HIDDEN))


def _head(net: FusedBuilder, name: str, hidden: int) -> int:
    tokens, depth = net.shape(hidden)[1], _HIDDEN // _HEADS
    projected = _biased(net, name, hidden, _HIDDEN)
    projected = _reshaped(net, f"{name}.reshape", projected, (1, tokens, _HEADS, depth))
    return _transposed(net, f"{name}.transpose", projected, (1, _HEADS, tokens, depth))


def _output(net: FusedBuilder, name: str, tensor: int, residual: int) -> int:
    """Add a projection, the residual sum and its normalisation."""
    projected = _biased(net, name, tensor, _HIDDEN)
    return _normalized(net, f"{name}.norm", _sum(net, f"{name}.add", projected, residual))


def _biased(net: FusedBuilder, name: str, tensor: int, features: int) -> int:
    product = net.linear(f"{name}.matmul", tensor, features, bias=False)
    return net.op(
        f"{name}.bias",
        "elementwise",
        [product],
        net.shape(product),
        attributes={"function": "add"},
        weight_bytes=BIAS_BYTES * features,
    )


def _normalized(net: FusedBuilder, name: str, tensor: int) -> int:
    attributes = {"function": "layer"}
    return net.op(name, "normalization", [tensor], net.shape(tensor), attributes=attributes, weight_bytes=2 * _HIDDEN)


def _sum(net: FusedBuilder, name: str, tensor: int, other: int) -> int:
    return net.op(name, "elementwise", [tensor, other], net.shape(tensor), attributes={"function": "add"})


def _each(net: FusedBuilder, name: str, tensor: int, function: str) -> int:
    return net.op(name, "elementwise", [tensor], net.shape(tensor), attributes={"function": function})


def _reshaped(net: FusedBuilder, name: str, tensor: int, shape: tuple[int, ...]) -> int:
    return net.op(name, "copy", [tensor], shape, attributes={"function": "reshape"})


def _transposed(net: FusedBuilder, name: str, tensor: int, shape: tuple[int, ...]) -> int:
    return net.op(name, "copy", [tensor], shape, attributes={"function": "transpose"})
