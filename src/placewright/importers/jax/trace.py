"""Traces a JAX function, and finds out which of its arguments are weights and which it updates."""

from __future__ import annotations

import inspect
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
from jax import tree_util

from placewright.importers.jax.program import Converter, array_of
from placewright.importers.xla.program import Program
from placewright.support.errors import InputError, shown


def trace(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    *,
    parameters: int | Sequence[int] | None,
    training: bool,
    unroll: int,
) -> Program:
    """The program of a function. Its root is the function's result or, with training, the loss and its gradients."""
    chosen = _positions(parameters, len(args))
    if training and not chosen:
        raise InputError("there is nothing to train: name the arguments that are weights, as in parameters=0")
    labels, owners = _labels(function, args, kwargs)
    weights = frozenset(place for place, owner in enumerate(owners) if owner in chosen)
    if training and not weights:
        raise InputError(f"there is nothing to train: argument {chosen[0]} holds no arrays")
    traced = _with_gradients(function, chosen) if training else function
    closed = _jaxpr(traced, args, kwargs)
    donated = _donated(closed.jaxpr)
    updates = _updates(closed.jaxpr, donated) if not training else {}
    return Program(
        entry=Converter(unroll).computation(_innermost(closed), "main"),
        labels=tuple(labels),
        weights=weights if training else weights | frozenset(updates.values()),
        updates=updates,
        materialised=False,
        scopes_nest=True,
    )


def _positions(parameters: int | Sequence[int] | None, count: int) -> list[int]:
    """Positions of the arguments that are weights, in order. Raises InputError for one that does not exist."""
    if parameters is None:
        return [0] if count > 1 else []
    asked = [parameters] if isinstance(parameters, int) else list(parameters)
    for position in asked:
        if not isinstance(position, int) or not 0 <= position < count:
            raise InputError(f"parameters names argument {shown(position)}, and there are {count}")
    return sorted(set(asked))


def _labels(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[list[str], list[int]]:
    """Names of the arrays in the arguments, and the position of each one's argument; -1 for keyword arguments."""
    labels: list[str] = []
    owners: list[int] = []
    positional = zip(_names(function, len(args)), args, range(len(args)), strict=True)
    for name, value, owner in (*positional, *((key, kwargs[key], -1) for key in sorted(kwargs))):
        parts = [name + tree_util.keystr(path) for path, _ in tree_util.tree_flatten_with_path(value)[0]]
        labels += parts
        owners += [owner] * len(parts)
    return labels, owners


def _names(function: Callable[..., Any], count: int) -> list[str]:
    """Names of the positional arguments."""
    try:
        known = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        known = []
    plain = [each.name for each in known if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    return [plain[place] if place < len(plain) else f"args[{place}]" for place in range(count)]


def _with_gradients(function: Callable[..., Any], chosen: Sequence[int]) -> Callable[..., Any]:
    """A function that returns the loss and its gradients, one for each chosen argument."""

    def loss(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        floating = [leaf for leaf in jax.tree.leaves(result) if jax.numpy.issubdtype(leaf.dtype, jax.numpy.inexact)]
        if len(floating) == 1 and floating[0].shape == ():
            return floating[0]
        return sum(leaf.mean() for leaf in floating)

    def step(*args: Any, **kwargs: Any) -> Any:
        return jax.value_and_grad(loss, argnums=tuple(chosen))(*args, **kwargs)

    return step


def _jaxpr(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """The jaxpr of a function. Raises InputError with the first line of the error in JAX or in the function."""
    try:
        return jax.make_jaxpr(function)(*args, **kwargs)
    except Exception as error:
        reason = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        name = getattr(function, "__name__", type(function).__name__)
        raise InputError(f"JAX cannot trace '{shown(name)}': {type(error).__name__}: {shown(reason, 300)}") from error


def _innermost(closed: Any) -> Any:
    """The jaxpr inside `jit` where the function is jitted as a whole; otherwise the jaxpr itself."""
    jaxpr = closed.jaxpr
    if len(jaxpr.eqns) == 1 and jaxpr.eqns[0].primitive.name == "jit" and not jaxpr.constvars:
        (equation,) = jaxpr.eqns
        if list(equation.invars) == list(jaxpr.invars) and list(equation.outvars) == list(jaxpr.outvars):
            return _innermost(equation.params["jaxpr"])
    return closed


def _donated(jaxpr: Any) -> list[int]:
    """Positions of the arguments that a function jitted as a whole may overwrite."""
    if len(jaxpr.eqns) != 1 or "donated_invars" not in jaxpr.eqns[0].params:
        return []
    place = {variable: position for position, variable in enumerate(jaxpr.invars)}
    (equation,) = jaxpr.eqns
    pairs = zip(equation.invars, equation.params["donated_invars"], strict=True)
    return [place[variable] for variable, given in pairs if given and variable in place]


def _updates(jaxpr: Any, donated: Sequence[int]) -> dict[int, int]:
    """Maps results to the donated argument whose memory each takes: the first free one of its type, as in JAX."""
    free: dict[Any, deque[int]] = defaultdict(deque)
    for position in donated:
        free[array_of(jaxpr.invars[position].aval)].append(position)
    found = {}
    for output, variable in enumerate(jaxpr.outvars):
        waiting = free.get(array_of(variable.aval))
        if waiting:
            found[output] = waiting.popleft()
    return found
