"""What networks over tokens share: their arguments, their losses and the entries of the zoo made of them."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from placewright.datasets.zoo.network import Network
from placewright.datasets.zoo.objectives import Loss, Supervised, cross_entropy


def tokens(batch: int, length: int) -> Tensor:
    """Indices into a vocabulary, [batch, length]."""
    return torch.zeros(batch, length, dtype=torch.int64)


def token_loss(logits: Tensor) -> Tensor:  # [batch, length, vocabulary] -> []
    """Cross entropy of every token."""
    return cross_entropy(logits.flatten(0, 1))


def token_entry(
    name: str, family: str, make: Callable[[], nn.Module], *shapes: tuple[int, int], loss: Loss = token_loss
) -> Network:
    """An entry of the zoo: the module under a loss, called with tokens of these shapes."""

    def build() -> tuple[nn.Module, tuple[Tensor, ...]]:
        return Supervised(make(), loss), tuple(tokens(*shape) for shape in shapes)

    return Network(name=name, family=family, build=build)
