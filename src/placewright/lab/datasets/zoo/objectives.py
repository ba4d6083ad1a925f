"""What networks are trained on: losses whose targets a fill op makes, and the wrapper that adds one to a module."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

Loss = Callable[[Any], Tensor]

#: Of an auxiliary classifier, as in Inception-v3's reference implementation.
AUXILIARY_WEIGHT = 0.4


def cross_entropy(logits: Tensor) -> Tensor:  # [batch, classes, *places] -> []
    """Against one class everywhere: targets only matter for their shape."""
    target = logits.new_zeros((logits.shape[0], *logits.shape[2:]), dtype=torch.int64)  # [batch, *places]
    return functional.cross_entropy(logits, target)


def token_loss(logits: Tensor) -> Tensor:  # [batch, length, vocabulary] -> []
    """Cross entropy of every token."""
    return cross_entropy(logits.flatten(0, 1))


def with_auxiliary(outputs: Any) -> Tensor:  # a tensor, or several [batch, classes] of which the first is the result
    """Cross entropy of the classifier and, weighted, of the auxiliary ones that training adds."""
    if isinstance(outputs, Tensor):
        return cross_entropy(outputs)
    result, *others = outputs.values() if isinstance(outputs, Mapping) else outputs
    loss = cross_entropy(result)
    for auxiliary in others:
        if auxiliary is not None:
            loss = loss + AUXILIARY_WEIGHT * cross_entropy(auxiliary)
    return loss


def first(outputs: Sequence[Tensor]) -> Tensor:  # ([batch, classes, *places], ...) -> []
    """Cross entropy of the first of several outputs."""
    return cross_entropy(outputs[0])


def squared_error(output: Tensor) -> Tensor:  # [*shape] -> []
    """Mean squared difference from a target of the output's shape."""
    return functional.mse_loss(output, torch.zeros_like(output))


def absolute_error(output: Tensor) -> Tensor:  # [*shape] -> []
    """Mean absolute difference from a target of the output's shape."""
    return functional.l1_loss(output, torch.zeros_like(output))


def binary_cross_entropy(logits: Tensor) -> Tensor:  # [*shape] -> []
    """Each output a yes or no of its own."""
    return functional.binary_cross_entropy_with_logits(logits, torch.zeros_like(logits))


def detection(outputs: Mapping[str, Tensor]) -> Tensor:  # of torchvision's detectors
    """A stand-in for the matching losses of detectors: classes, [batch, anchors, classes], by cross entropy, the four
    numbers of a box, [batch, anchors, 4], squared."""
    return squared_error(outputs["bbox_regression"]) + cross_entropy(outputs["cls_logits"].flatten(0, 1))


def mean(output: Tensor) -> Tensor:  # [*shape] -> []
    """Of losses that the module computes itself."""
    return output.mean()


class Supervised(nn.Module):
    """A module that in training returns the loss of its output instead."""

    def __init__(self, model: nn.Module, loss: Loss) -> None:
        super().__init__()
        self.model = model
        self.loss = loss

    def forward(self, *inputs: Tensor) -> Any:  # what the model takes -> what it returns, or []
        output = self.model(*inputs)
        return self.loss(output) if self.training else output


class Named(nn.Module):
    """A module of transformers called with named inputs; `output` is the part of its result that counts.

    In training the module's own loss, or with `loss` that of the output. Its own is against its last input where it
    takes labels.
    """

    def __init__(self, model: nn.Module, names: Sequence[str], output: str, loss: Loss | None) -> None:
        super().__init__()
        self.model, self.names, self.output, self.loss = model, tuple(names), output or "logits", loss

    def forward(self, *inputs: Tensor) -> Any:  # what the model takes -> what it returns, or []
        named: dict[str, Any] = dict(zip(self.names, inputs, strict=True))
        if self.training and self.loss is None:
            known = inspect.signature(self.model.forward).parameters
            asked = {"labels": inputs[-1], "return_loss": True}
            return self.model(**named, **{name: value for name, value in asked.items() if name in known}).loss
        output = getattr(self.model(**named), self.output)
        return self.loss(output) if self.training and self.loss is not None else output


class Detector(nn.Module):
    """The part of a detector of torchvision that is trained: backbone and heads. What stands around them, resizing and
    choosing among boxes, depends on values."""

    def __init__(self, detector: nn.Module) -> None:
        super().__init__()
        self.backbone, self.head = detector.backbone, detector.head

    def forward(self, image: Tensor) -> Any:  # [batch, 3, height, width] -> scores and boxes of all anchors
        return self.head(list(self.backbone(image).values()))


def supervised(module: nn.Module, loss: str, names: Sequence[str], output: str) -> nn.Module:
    """The module under the loss of that name; "own" is the one the module computes.

    names: of its inputs, where it takes them by name. output: the attribute of its result that counts.
    """
    chosen: Loss | None = None if loss == "own" else LOSSES[loss]
    if names:
        return Named(module, names, output, chosen)
    if loss == "detection":
        module = Detector(module)
    return module if chosen is None else Supervised(module, chosen)


LOSSES: Mapping[str, Loss] = {
    "cross_entropy": cross_entropy,
    "token_loss": token_loss,
    "with_auxiliary": with_auxiliary,
    "first": first,
    "squared_error": squared_error,
    "absolute_error": absolute_error,
    "binary_cross_entropy": binary_cross_entropy,
    "detection": detection,
    "mean": mean,
}
