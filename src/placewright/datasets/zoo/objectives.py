"""What networks are trained on: losses whose targets a fill op makes, and the wrapper that adds one to a module."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from placewright.datasets.zoo.network import Network

Loss = Callable[[Any], Tensor]


def cross_entropy(logits: Tensor) -> Tensor:  # [batch, classes, *places] -> []
    """Against one class everywhere: targets only matter for their shape."""
    target = logits.new_zeros((logits.shape[0], *logits.shape[2:]), dtype=torch.int64)  # [batch, *places]
    return functional.cross_entropy(logits, target)


def squared_error(output: Tensor) -> Tensor:  # [*shape] -> []
    """Mean squared difference from a target of the output's shape."""
    return functional.mse_loss(output, torch.zeros_like(output))


def absolute_error(output: Tensor) -> Tensor:  # [*shape] -> []
    """Mean absolute difference from a target of the output's shape."""
    return functional.l1_loss(output, torch.zeros_like(output))


def binary_cross_entropy(logits: Tensor) -> Tensor:  # [*shape] -> []
    """Each output a yes or no of its own."""
    return functional.binary_cross_entropy_with_logits(logits, torch.zeros_like(logits))


class Supervised(nn.Module):
    """A module that in training returns the loss of its output instead."""

    def __init__(self, model: nn.Module, loss: Loss) -> None:
        super().__init__()
        self.model = model
        self.loss = loss

    def forward(self, *inputs: Tensor) -> Any:  # what the model takes -> what it returns, or []
        output = self.model(*inputs)
        return self.loss(output) if self.training else output


def entry(
    name: str, family: str, make: Callable[[], nn.Module], *shapes: tuple[int, ...], loss: Loss = cross_entropy
) -> Network:
    """An entry of the zoo: the module under a loss, called with float32 tensors of these shapes."""

    def build() -> tuple[nn.Module, tuple[Tensor, ...]]:
        return Supervised(make(), loss), tuple(torch.zeros(shape) for shape in shapes)

    return Network(name=name, family=family, build=build)
