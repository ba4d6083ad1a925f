"""The arguments of a module: its signature, the tensors among them and their names, and the mode it is in.

Imported only where torch is known to be present.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import logging
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from placewright.support.errors import InputError


def module_of(model: Any) -> Any:
    """The module to trace. Raises InputError for something else, and for a module without shapes or with open sizes."""
    if isinstance(model, torch.jit.ScriptModule):
        raise InputError(
            f"{getattr(model, 'original_name', 'the model')} is a TorchScript module, whose code PyTorch no longer "
            "traces; pass the module it was made from, or what torch.export.export makes of that"
        )
    if isinstance(model, nn.Module):
        unmade = [name for name, tensor in model.named_parameters() if nn.parameter.is_lazy(tensor)]
        if unmade:
            raise InputError(
                f"the parameter '{unmade[0]}' of {type(model).__name__} has no shape yet; call the module once first"
            )
        return model
    if not isinstance(model, torch.export.ExportedProgram):
        raise InputError(
            f"a graph is captured from an nn.Module or an ExportedProgram, not from a {type(model).__name__}"
        )
    if model.range_constraints:
        symbols = ", ".join(str(symbol) for symbol in model.range_constraints)
        raise InputError(f"the exported program leaves the dimensions {symbols} open; export it with fixed shapes")
    return model.module()


def bind(model: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> inspect.BoundArguments:
    """The arguments by the names of the parameters of `forward`. Raises InputError when they do not fit."""
    try:
        return inspect.signature(model.forward).bind(*args, **kwargs)
    except TypeError as error:
        raise InputError(f"{type(model).__name__} cannot be called with these arguments: {error}") from error


def argument_names(arguments: Mapping[str, Any], taken: Collection[str]) -> list[str]:
    """The names of the tensors among the arguments, in order: "input_ids", or "states.0" inside a container; followed
    by "_" where something of the module has the name."""
    named, _ = pytree.tree_flatten_with_path(arguments)
    names = []
    for path, leaf in named:
        name = ".".join(str(getattr(key, "key", getattr(key, "idx", getattr(key, "name", "")))) for key in path)
        while name in taken:
            name += "_"
        if isinstance(leaf, torch.Tensor):
            names.append(name)
    return names


@contextlib.contextmanager
def mode_set(model: Any, training: bool) -> Iterator[None]:
    """A context with the model in training or evaluation mode; each submodule's own flag is restored afterwards. A
    model that is already in that mode keeps the flags of its submodules: frozen ones stay frozen."""
    if isinstance(model, torch.fx.GraphModule) or model.training == training:
        yield
        return
    flags = [(module, module.training) for module in model.modules()]
    model.train(training)
    try:
        yield
    finally:
        for module, flag in flags:
            module.training = flag


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """A context without the warnings and tracebacks that PyTorch prints: errors are raised, in one sentence."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
