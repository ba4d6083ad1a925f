"""A PyTorch module, or a whole training step of it, as a Graph."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from placewright.graph import Graph
from placewright.importers.optimizers import Optimizer, check_optimizer
from placewright.support.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from torch import nn
    from torch.export import ExportedProgram


def from_torch(
    model: nn.Module | ExportedProgram,
    args: Any = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    training: bool = False,
    optimizer: Optimizer = "adam",
    loss: Callable[[Any], Any] | None = None,
    name: str | None = None,
) -> Graph:
    """Capture one inference, or one training step: forward, backward, one optimizer op per parameter.

    PyTorch's own compiler reads the module's code. Nothing is computed and no weight is read, so a module built on the
    meta device or under FakeTensorMode will do.

    Parameters
    ----------
    model
        Traced in evaluation mode, or in training mode with `training`; an ExportedProgram as it was exported.
    args, kwargs
        The arguments of the module; one tensor means a tuple of it. Where neither is given, an ExportedProgram is
        traced with the inputs it was exported with.
    training
        Whether backward and optimizer are also captured.
    optimizer
        "sgd" keeps no state; "adam" and "adamw" keep two tensors like each parameter.
    loss
        Makes a scalar of the model's output; by default its `.loss`, or the scalar it returns, or the sum of the means
        of what it returns.
    name
        Name of the graph; by default the class of the module.

    Returns
    -------
    Graph
        The captured graph. Updated parameters and buffers are in-place results: outputs of the op that computes them,
        aliasing the old value, after everything that reads the old value (`Op.controls`). Ops that draw random numbers
        follow each other as in the module, since they share one generator.

    Raises
    ------
    MissingExtraError
        Without PyTorch.
    InputError
        When PyTorch cannot capture the module as one graph, with the line of its code, sizes stay symbolic, there is
        nothing to train, or the gradient of a parameter that the loss depends on was not traced.
    """
    return captured_graph(
        model, args, kwargs or {}, training=training, optimizer=optimizer, loss=loss, name=name, random_in_order=True
    )


def captured_graph(
    model: nn.Module | ExportedProgram,
    args: Any,
    kwargs: Mapping[str, Any],
    *,
    training: bool,
    optimizer: Optimizer,
    loss: Callable[[Any], Any] | None = None,
    name: str | None = None,
    random_in_order: bool,
) -> Graph:
    """Capture the graph that `from_torch` returns.

    random_in_order: whether ops that draw random numbers keep their order, without which a plan may draw other numbers
    than the module. The sets of graphs have no such order, as in the papers, and keep each copy that is traced.
    """
    if importlib.util.find_spec("torch") is None:
        raise MissingExtraError("PyTorch", "torch", "capturing a module")
    from placewright.importers.torch.capture import capture
    from placewright.importers.torch.front import trace_joint
    from placewright.importers.torch.graph import translate
    from placewright.importers.torch.record import with_record

    check_optimizer(optimizer)
    # The committed sets were captured by the exporter, so that their traces are made `as_exported`.
    traced = trace_joint(model, positional(args), kwargs, training=training, loss=loss, as_exported=not random_in_order)
    graph, _ = translate(
        capture(traced, keep_draws=random_in_order),
        name or _name_of(model),
        optimizer if training else None,
        random_in_order=random_in_order,
        copies=not random_in_order,
    )
    return with_record(graph, model)


def graphs_in_parts(
    model: nn.Module, args: Any, kwargs: Mapping[str, Any], optimizer: Optimizer
) -> Iterator[tuple[str, int, Graph]]:
    """Capture a training step once, and yield it with stretches in parts: name, number of parts, and graph.

    Sums over parts have other last bits. Raises InputError as `from_torch` does.
    """
    from placewright.importers.torch.capture import capture
    from placewright.importers.torch.front import trace_joint
    from placewright.importers.torch.graph import translate
    from placewright.importers.torch.splitting.choices import choices, divided

    traced = trace_joint(model, positional(args), kwargs, training=True, loss=None)
    for choice in choices(traced.graph, traced.inputs()):
        for count in choice.counts:
            captured = capture(replace(traced, graph=divided(traced.graph, choice, count)))
            graph, _ = translate(captured, _name_of(model), optimizer, copies=False)
            yield choice.name, count, graph


def _name_of(model: nn.Module | ExportedProgram) -> str:
    """The class of the module; for an exported program, the class of its original module."""
    for node in getattr(getattr(model, "graph", None), "nodes", ()):
        if stack := node.meta.get("nn_module_stack"):
            kind = next(iter(stack.values()))[1]
            return (kind if isinstance(kind, str) else kind.__name__).rpartition(".")[2]
    return type(model).__name__


def positional(args: Any) -> tuple[Any, ...]:
    """Positional arguments, from a sequence of them or a single tensor."""
    import torch

    if isinstance(args, torch.Tensor):
        return (args,)
    if isinstance(args, (tuple, list)):
        return tuple(args)
    hint = "; arguments by name go into kwargs" if isinstance(args, Mapping) else ""
    raise InputError(
        f"args is a {type(args).__name__}; it must be a tuple of the model's arguments, or one tensor{hint}"
    )
