"""One step of a decoder of the Llama family (Touvron et al. 2023): the next token of each sequence of a batch.

Weights, and the cache of keys and values of earlier tokens, are bfloat16; both are read whole for every token. Modules
have the names that transformers gives them, so that a map of the weights holds for its models. `decoder_offload.py`
imports this.
"""

from __future__ import annotations

from dataclasses import dataclass

from placewright.graph import Graph
from placewright.importers.builder import tensor_bytes
from placewright.lab.datasets.fused.layers import FusedBuilder

_DTYPE = "bfloat16"


@dataclass(frozen=True, kw_only=True)
class Decoder:
    """The shape of a model: key_heads share keys and values between heads; inner is the width of the gated layer."""

    layers: int
    hidden: int
    heads: int
    key_heads: int
    inner: int
    vocabulary: int
    source: str

    @property
    def head(self) -> int:
        return self.hidden // self.heads

    def cache_bytes(self, batch: int, context: int) -> int:
        """Of one layer."""
        return tensor_bytes((2, batch, self.key_heads, context, self.head), _DTYPE)


#: By name.
DECODERS = {
    "codellama-34b": Decoder(
        layers=48,
        hidden=8192,
        heads=64,
        key_heads=8,
        inner=22016,
        vocabulary=32000,
        source="Roziere et al., Code Llama: Open Foundation Models for Code, 2023",
    ),
    "llama2-70b": Decoder(
        layers=80,
        hidden=8192,
        heads=64,
        key_heads=8,
        inner=28672,
        vocabulary=32000,
        source="Touvron et al., Llama 2: Open Foundation and Fine-Tuned Chat Models, 2023",
    ),
}


def decoder_step(name: str, decoder: Decoder, *, batch: int, context: int) -> Graph:
    """batch: sequences. context: tokens of each that are in the cache, the new one included."""
    net = FusedBuilder(name, _DTYPE)
    tokens = net.input("input_ids", (batch,), "int64")
    hidden = net.op(
        "model.embed_tokens",
        "embedding",
        [tokens],
        (batch, decoder.hidden),
        weight_bytes=tensor_bytes((decoder.vocabulary, decoder.hidden), _DTYPE),
        weight_shape=(decoder.vocabulary, decoder.hidden),
    )
    for layer in range(decoder.layers):
        path = f"model.layers.{layer}"
        normalized = _norm(net, f"{path}.input_layernorm", hidden)
        attended = _attention(net, f"{path}.self_attn", normalized, decoder, context)
        hidden = _added(net, f"{path}.attention_residual", hidden, attended)
        normalized = _norm(net, f"{path}.post_attention_layernorm", hidden)
        hidden = _added(net, f"{path}.mlp_residual", hidden, _gated(net, f"{path}.mlp", normalized, decoder))
    logits = net.linear("lm_head", _norm(net, "model.norm", hidden), decoder.vocabulary, bias=False)
    return net.build(logits, decoder.source)


def _attention(net: FusedBuilder, path: str, tensor: int, decoder: Decoder, context: int) -> int:
    """The new token of each sequence attends to all of its own, whose keys and values are the cache."""
    batch, width = net.shape(tensor)[0], decoder.key_heads * decoder.head
    query = _rotated(net, path, "q_proj", net.linear(f"{path}.q_proj", tensor, decoder.hidden, bias=False))
    key = _rotated(net, path, "k_proj", net.linear(f"{path}.k_proj", tensor, width, bias=False))
    value = net.linear(f"{path}.v_proj", tensor, width, bias=False)
    sizes = {"batch": batch, "heads": decoder.heads, "query_length": 1, "key_length": context}
    context_of = net.op(
        f"{path}.attention",
        "attention",
        [query, key, value],
        (batch, decoder.hidden),
        attributes={**sizes, "head_dim": decoder.head, "value_dim": decoder.head},
        weight_bytes=decoder.cache_bytes(batch, context),
        weight_name="cache",
    )
    return net.linear(f"{path}.o_proj", context_of, decoder.hidden, bias=False)


def _gated(net: FusedBuilder, path: str, tensor: int, decoder: Decoder) -> int:
    gate = net.linear(f"{path}.gate_proj", tensor, decoder.inner, bias=False)
    up = net.linear(f"{path}.up_proj", tensor, decoder.inner, bias=False)
    both = net.op(f"{path}.act_fn", "elementwise", [gate, up], net.shape(up), attributes={"function": "silu"})
    return net.linear(f"{path}.down_proj", both, decoder.hidden, bias=False)


def _norm(net: FusedBuilder, name: str, tensor: int) -> int:
    size = tensor_bytes((net.shape(tensor)[-1],), _DTYPE)
    attributes = {"function": "rms"}
    return net.op(name, "normalization", [tensor], net.shape(tensor), attributes=attributes, weight_bytes=size)


def _rotated(net: FusedBuilder, path: str, role: str, tensor: int) -> int:
    """With the position of its token (RoPE)."""
    name = f"{path}.rotary.{role}"
    return net.op(name, "elementwise", [tensor], net.shape(tensor), attributes={"function": "mul"})


def _added(net: FusedBuilder, name: str, one: int, other: int) -> int:
    return net.op(name, "elementwise", [one, other], net.shape(one), attributes={"function": "add"})
