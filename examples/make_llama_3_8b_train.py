"""Llama 3 8B, one training step of next-token prediction: one sequence of 2,048 tokens, bfloat16, Adam in float32."""

from __future__ import annotations

from dataclasses import replace

import torch
from saving import save_example, without_memory
from transformers import AttentionInterface, LlamaConfig, LlamaForCausalLM
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from placewright.graph import Graph
from placewright.importers.torch.module import from_torch

BATCH, TOKENS = 1, 2048

# When it runs, transformers asks for causal attention and makes no mask; when traced it makes one, but not for an
# implementation under a name of one's own.
AttentionInterface.register("causal", sdpa_attention_forward)

#: Dimensions of the published 8B model (Llama Team, The Llama 3 Herd of Models, 2024, table 3).
CONFIGURATION = LlamaConfig(
    hidden_size=4096,
    intermediate_size=14336,
    num_hidden_layers=32,
    num_attention_heads=32,
    num_key_value_heads=8,
    vocab_size=128256,
    max_position_embeddings=8192,
    tie_word_embeddings=False,
    use_cache=False,
    attn_implementation="causal",
)


def build() -> Graph:
    """The graph; 16 GB of weights, 16 GB of gradients and 64 GB of optimizer state, were it ever run."""
    torch.set_default_dtype(torch.bfloat16)
    with without_memory():
        model = LlamaForCausalLM(CONFIGURATION)
        inputs = {name: torch.zeros(BATCH, TOKENS, dtype=torch.int64) for name in ("input_ids", "labels")}
    torch.set_default_dtype(torch.float32)
    return in_float32(from_torch(model, kwargs=inputs, training=True, optimizer="adam", name="llama-3-8b-train"))


def in_float32(graph: Graph) -> Graph:
    """The graph with Adam's states in float32, as training in mixed precision keeps them; those of torch.optim have the
    dtype of the parameter."""
    return replace(
        graph,
        tensors=tuple(
            replace(tensor, dtype="float32", size_bytes=2 * tensor.size_bytes)
            if tensor.name.endswith((".exp_avg", ".exp_avg_sq"))
            else tensor
            for tensor in graph.tensors
        ),
    )


if __name__ == "__main__":
    save_example(build())
