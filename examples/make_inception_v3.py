"""Inception-v3: one inference and one training step with Adam, batch 32, float32."""

from __future__ import annotations

import torch
from saving import save_example, without_memory

from placewright.datasets.zoo.inception_v3 import InceptionV3, TrainingLoss
from placewright.graph import Graph
from placewright.importers.torch_module import from_torch

BATCH, PIXELS = 32, 299


def build_inference() -> Graph:
    """The classifier alone."""
    with without_memory():
        model, images = InceptionV3(), torch.zeros(BATCH, 3, PIXELS, PIXELS)
    return from_torch(model, (images,), name="inception-v3")


def build_training() -> Graph:
    """Forward, backward and optimizer, the auxiliary classifier included."""
    with without_memory():
        model, images = TrainingLoss(InceptionV3()), torch.zeros(BATCH, 3, PIXELS, PIXELS)
        labels = torch.zeros(BATCH, dtype=torch.int64)
    return from_torch(model, (images, labels), training=True, optimizer="adam", name="inception-v3-train")


if __name__ == "__main__":
    save_example(build_inference())
    save_example(build_training())
