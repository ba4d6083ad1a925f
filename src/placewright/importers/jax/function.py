"""A JAX function, or a whole training step, as a Graph."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from placewright.graph import Graph
from placewright.importers.optimizers import Optimizer, check_optimizer
from placewright.importers.xla.graph import build_graph
from placewright.importers.xla.program import leaves, weights_behind
from placewright.support.errors import MissingExtraError


def from_jax(
    function: Callable[..., Any],
    args: Any = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    parameters: int | Sequence[int] | None = None,
    training: bool = False,
    optimizer: Optimizer = "adam",
    unroll: int = 0,
    name: str | None = None,
) -> Graph:
    """Capture the ops of a JAX function, or a training step of the loss that it returns.

    The function is traced, not run, so arrays may be `jax.ShapeDtypeStruct`. The ops are those of its jaxpr. Calls by
    `jit`, `checkpoint`, `custom_jvp` and the like are inlined. Ops that no result needs, or that depend on constants
    alone, are left out.

    Parameters
    ----------
    function
        Traced with `jax.make_jaxpr`. Arguments that `jax.jit(function, donate_argnums=...)` donates are parameters
        that the step updates in place: each takes the first result of its shape and dtype, as JAX pairs them.
    args, kwargs
        Arguments of the function: arrays, `jax.ShapeDtypeStruct`, and containers of them.
    parameters
        Positions of the arguments whose arrays are weights; by default the first one of several arguments.
    training
        Whether the function is a loss. If so, its gradients for the weights and an optimizer op for each weight are
        captured, too. A step that calls `jax.grad` itself does not need this.
    optimizer
        "sgd" keeps no state; "adam" and "adamw" keep two tensors like each weight.
    unroll
        Scans of at most so many steps are unrolled into the ops of each step. A longer scan is one op of kind
        "control_flow" with the work of all steps.
    name
        Name of the graph; by default that of the function.

    Returns
    -------
    Graph
        Its layers are the named scopes. Transposed ops are backward; ops that follow them belong to the optimizer.

    Raises
    ------
    MissingExtraError
        Without JAX.
    InputError
        When JAX cannot trace the function, shapes stay symbolic, or there is nothing to train.
    """
    if importlib.util.find_spec("jax") is None:
        raise MissingExtraError("JAX", "jax", "capturing a function")
    from placewright.importers.jax.trace import trace

    check_optimizer(optimizer)
    positional = args if isinstance(args, tuple | list) and not hasattr(args, "_fields") else (args,)
    traced = trace(
        function, tuple(positional), dict(kwargs or {}), parameters=parameters, training=training, unroll=unroll
    )
    label = name or getattr(function, "__name__", type(function).__name__).strip("<>")
    kinds = list(leaves(tuple(traced.entry.parameters.values())))
    warning = weights_behind(traced.labels, kinds) if parameters is None and not traced.updates else ""
    return build_graph(traced, label, {"framework": "jax"}, optimizer=optimizer if training else None, warning=warning)
