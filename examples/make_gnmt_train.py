"""GNMT-like translation, one training step: 8 + 8 layers of width 1,024 unrolled, batch 64, Adam, float32."""

from __future__ import annotations

import torch
from saving import save_example, without_memory

from placewright.graph import Graph
from placewright.importers.torch.module import from_torch
from placewright.lab.datasets.zoo.gnmt import Translation

BATCH, LENGTH, WIDTH, LAYERS, VOCABULARY = 64, 20, 1024, 8, 32000


def build() -> Graph:
    """The graph: every cell of every step on its own."""
    with without_memory():
        model = Translation(VOCABULARY, WIDTH, LAYERS)
        tokens = [torch.zeros(BATCH, LENGTH, dtype=torch.int64) for _ in range(3)]
    return from_torch(model, tokens, training=True, optimizer="adam", name="gnmt-train")


if __name__ == "__main__":
    save_example(build())
