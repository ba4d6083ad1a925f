"""Inception-v3 of torchvision: one inference and one training step with Adam, batch 32, float32.

The stored training step was captured from the same network written in other modules: its layers have other names.
"""

from __future__ import annotations

from typing import Any

import torch
from saving import save_example, without_memory
from torch import Tensor, nn
from torch.nn import functional

from placewright.graph import Graph
from placewright.importers.torch.module import from_torch
from placewright.lab.datasets.zoo.libraries import built_module

BATCH, PIXELS = 32, 299


class TrainingLoss(nn.Module):
    """Cross entropy of both classifiers, the auxiliary one weighted 0.4 as in the TensorFlow reference."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, image: Tensor, label: Tensor) -> Tensor:  # [batch, 3, 299, 299], [batch] -> []
        logits, auxiliary = self.model(image)
        return functional.cross_entropy(logits, label) + 0.4 * functional.cross_entropy(auxiliary, label)


def network() -> Any:
    """The network with its auxiliary classifier, which runs in training only."""
    return built_module("torchvision", "inception_v3", {"init_weights": False})


def build_inference() -> Graph:
    """The classifier alone."""
    with without_memory():
        model, images = network(), torch.zeros(BATCH, 3, PIXELS, PIXELS)
    return from_torch(model, (images,), name="inception-v3")


def build_training() -> Graph:
    """Forward, backward and optimizer, the auxiliary classifier included."""
    with without_memory():
        model, images = TrainingLoss(network()), torch.zeros(BATCH, 3, PIXELS, PIXELS)
        labels = torch.zeros(BATCH, dtype=torch.int64)
    return from_torch(model, (images, labels), training=True, optimizer="adam", name="inception-v3-train")


if __name__ == "__main__":
    save_example(build_inference())
    save_example(build_training())
