"""Training losses, whose targets a fill op makes, and the wrapper that adds one to a module."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

Loss = Callable[[Any], Tensor]

#: Weight of an auxiliary classifier, as in Inception-v3's reference implementation.
AUXILIARY_WEIGHT = 0.4


def cross_entropy(logits: Tensor) -> Tensor:  # [batch, classes, *places] -> []
    """Cross entropy against class 0 everywhere: only the shape of targets matters."""
    target = logits.new_zeros((logits.shape[0], *logits.shape[2:]), dtype=torch.int64)  # [batch, *places]
    return functional.cross_entropy(logits, target)


def token_loss(logits: Tensor) -> Tensor:  # [batch, length, vocabulary] -> []
    """Cross entropy of every token."""
    return cross_entropy(logits.flatten(0, 1))


def with_auxiliary(outputs: Any) -> Tensor:  # a tensor, or several [batch, classes] of which the first is the result
    """Cross entropy of the classifier plus, weighted, that of the auxiliary ones that training adds."""
    if isinstance(outputs, Tensor):
        return cross_entropy(outputs)
    result, *others = outputs.values() if isinstance(outputs, Mapping) else outputs
    loss = cross_entropy(result)
    for auxiliary in others:
        if auxiliary is not None:
            loss = loss + AUXILIARY_WEIGHT * cross_entropy(auxiliary)
    return loss


def squared_error(output: Tensor) -> Tensor:  # [*shape] -> []
    """Mean squared difference from a target of the output's shape."""
    return functional.mse_loss(output, torch.zeros_like(output))


def absolute_error(output: Tensor) -> Tensor:  # [*shape] -> []
    """Mean absolute difference from a target of the output's shape."""
    return functional.l1_loss(output, torch.zeros_like(output))


def binary_cross_entropy(logits: Tensor) -> Tensor:  # [*shape] -> []
    """Binary cross entropy that treats each output as a separate yes or no."""
    return functional.binary_cross_entropy_with_logits(logits, torch.zeros_like(logits))


def mean(output: Tensor) -> Tensor:  # [*shape] -> []
    """Mean of losses that the module computes itself."""
    return output.mean()


class Supervised(nn.Module):
    """A module that returns the loss of its output in training."""

    def __init__(self, model: nn.Module, loss: Loss) -> None:
        super().__init__()
        self.model = model
        self.loss = loss

    def forward(self, *inputs: Tensor) -> Any:  # what the model takes -> what it returns, or []
        output = self.model(*inputs)
        return self.loss(output) if self.training else output


class Named(nn.Module):
    """A module of transformers called with named inputs. It returns logits; in training, its own loss against the last
    input."""

    def __init__(self, model: nn.Module, names: Sequence[str]) -> None:
        super().__init__()
        self.model, self.names = model, tuple(names)

    def forward(self, *inputs: Tensor) -> Any:  # what the model takes -> [batch, length, vocabulary], or []
        named: dict[str, Any] = dict(zip(self.names, inputs, strict=True))
        if self.training:
            return self.model(**named, labels=inputs[-1]).loss
        return self.model(**named).logits


def supervised(module: nn.Module, loss: str, names: Sequence[str] = ()) -> nn.Module:
    """Add the loss of that name to the module; "own" is the one the module computes. names: of its inputs, where it is
    one of transformers."""
    if names:
        return Named(module, names)
    return module if loss == "own" else Supervised(module, LOSSES[loss])


LOSSES: Mapping[str, Loss] = {
    "cross_entropy": cross_entropy,
    "token_loss": token_loss,
    "with_auxiliary": with_auxiliary,
    "squared_error": squared_error,
    "absolute_error": absolute_error,
    "binary_cross_entropy": binary_cross_entropy,
    "mean": mean,
}
