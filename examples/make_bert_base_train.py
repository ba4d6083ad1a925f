"""BERT-base, one training step of masked language modelling: batch 32 of 128 tokens, Adam, float32."""

from __future__ import annotations

import torch
from saving import save_example, without_memory
from transformers import BertConfig, BertForMaskedLM

from placewright.graph import Graph
from placewright.importers.torch.module import from_torch

BATCH, TOKENS = 32, 128


def build() -> Graph:
    """The graph, with the dropout of the original and the attention it makes PyTorch spell out."""
    with without_memory():
        model = BertForMaskedLM(BertConfig())
        inputs = {name: torch.zeros(BATCH, TOKENS, dtype=torch.int64) for name in ("input_ids", "labels")}
    return from_torch(model, kwargs=inputs, training=True, optimizer="adam", name="bert-base-train")


if __name__ == "__main__":
    save_example(build())
