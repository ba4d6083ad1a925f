"""What a call of a module is, to be captured: its mode, its loss, and what its arguments are called.

Imported only where torch is known to be present.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from placewright.support.errors import InputError


def default_loss(output: Any) -> Any:
    """The scalar that a training step minimises: `.loss`, the scalar returned, or the sum of the outputs' means."""
    loss = output.get("loss") if isinstance(output, Mapping) else getattr(output, "loss", None)
    if isinstance(loss, torch.Tensor):
        return loss
    leaves = [leaf for leaf in pytree.tree_leaves(output) if isinstance(leaf, torch.Tensor)]
    tensors = [tensor for tensor in leaves if tensor.requires_grad]
    if not tensors:
        raise InputError("no output of the model depends on a parameter, so there is nothing to train")
    if len(tensors) == 1 and tensors[0].dim() == 0:
        return tensors[0]
    return functools.reduce(torch.add, [tensor.mean() for tensor in tensors])


def checked_loss(loss: Any) -> Any:
    """The loss. Raises InputError for what no training step can minimise."""
    if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
        shape = tuple(loss.shape) if isinstance(loss, torch.Tensor) else type(loss).__name__
        raise InputError(f"a training step needs a loss of one element, and the loss is {shape}")
    if not loss.requires_grad:
        raise InputError("the loss depends on no parameter, so there is nothing to train")
    return loss


@contextmanager
def mode_set(model: Any, training: bool) -> Iterator[None]:
    """The model in training or evaluation mode, each submodule's own flag restored afterwards. A model that is in that
    mode already keeps the flags of its submodules: what is frozen stays frozen."""
    if not isinstance(model, nn.Module) or isinstance(model, torch.fx.GraphModule) or model.training == training:
        yield
        return
    flags = [(module, module.training) for module in model.modules()]
    model.train(training)
    try:
        yield
    finally:
        for module, flag in flags:
            module.training = flag


def argument_names(model: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[int, str]:
    """What the tensors among the arguments are called, by identity: "input_ids", or "states.0" inside a container.
    Raises InputError where forward cannot be called with them."""
    try:
        bound = inspect.signature(model.forward).bind(*args, **kwargs)
    except TypeError as error:
        raise InputError(f"{type(model).__name__} cannot be called with these arguments: {error}") from error
    found: dict[int, str] = {}
    for path, leaf in pytree.tree_flatten_with_path(dict(bound.arguments))[0]:
        if isinstance(leaf, torch.Tensor):
            name = ".".join(str(getattr(key, "key", getattr(key, "idx", getattr(key, "name", "")))) for key in path)
            found.setdefault(id(leaf), name)
    return found
