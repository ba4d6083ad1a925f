"""The results of a module, and the loss of a training step, written so that Dynamo can read it.

Imported only where torch is known to be present.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from placewright.support.errors import InputError

#: The depth to which nested objects are followed.
_DEPTH = 4


def tensors_of(tree: Any) -> list[Any]:
    """The tensors in containers, in order."""
    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def returned_tensors(output: Any) -> list[Any]:
    """The tensors that a module returns; those in objects such as the caches of language models come last."""
    leaves = pytree.tree_leaves(output)
    found = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    for leaf in leaves:
        if not isinstance(leaf, torch.Tensor):
            found += _tensors_within(leaf, 0)
    return found


def _tensors_within(value: Any, depth: int) -> list[Any]:
    if isinstance(value, torch.Tensor):
        return [value]
    if depth == _DEPTH or isinstance(value, (type(None), bool, int, float, complex, str, bytes, type, nn.Module)):
        return []
    if isinstance(value, (list, tuple)):
        each: Any = value
    elif isinstance(value, dict):
        each = value.values()
    elif hasattr(value, "__dict__"):
        each = value.__dict__.values()
    else:
        return []
    found = []
    for part in each:
        found += _tensors_within(part, depth + 1)
    return found


def default_loss(output: Any) -> Any:
    """The scalar that a training step minimises: `.loss`, the scalar returned, or the sum of the outputs' means.

    Raises InputError where no output depends on a parameter.
    """
    loss = loss_of(output)
    if loss is None:
        raise InputError(NOTHING_TO_TRAIN)
    return loss


#: The reason why a module without such outputs has no training step.
NOTHING_TO_TRAIN = "no output of the model depends on a parameter, so there is nothing to train"


def loss_of(output: Any) -> Any:
    """The scalar of `default_loss`; None where no output depends on a parameter."""
    loss = output.get("loss") if isinstance(output, Mapping) else getattr(output, "loss", None)
    if isinstance(loss, torch.Tensor):
        return loss
    tensors = [tensor for tensor in tensors_of(output) if tensor.requires_grad]
    if not tensors:
        return None
    if len(tensors) == 1 and tensors[0].dim() == 0:
        return tensors[0]
    return functools.reduce(torch.add, [tensor.mean() for tensor in tensors])


def check_loss(loss: Any, kind: str = "") -> None:
    """Raises InputError for a loss of several elements, or one that depends on no parameter. kind: the type of a loss
    that is no tensor."""
    if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
        shape = tuple(loss.shape) if isinstance(loss, torch.Tensor) else kind or type(loss).__name__
        raise InputError(f"a training step needs a loss of one element, and the loss is {shape}")
    if not loss.requires_grad:
        raise InputError("the loss depends on no parameter, so there is nothing to train")
