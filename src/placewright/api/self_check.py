"""The first call of a planned module beside eager's on a copy of the module: what differs is said, or refused.

Imported only where torch is known to be present.
"""

from __future__ import annotations

import copy
import logging
import random
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from placewright.support.errors import InputError, shown

_LOGGER = logging.getLogger(__name__)
#: How many digits of its dtype a result may be from eager's, as a share of its largest value, before it counts as
#: another and not as rounded otherwise; of dtypes with less than three decimal digits fewer.
_MOST, _MOST_OF_FEW, _FEW = 200.0, 10.0, 1e-3
#: Gradients that are this many digits of the largest of all may be nothing but rounding.
_NOISE = 8.0


@dataclass(frozen=True, kw_only=True)
class _Outcome:
    """What a call leaves: tensors by name, and the state of the generator of random numbers."""

    tensors: Mapping[str, Any]
    drawn: Any


class SelfCheck:
    """Compares one call of a model with eager's, on a copy of the model and the arguments that is made now."""

    def __init__(self, model: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        self._model, self._args, self._kwargs = model, args, kwargs
        self._before = {name: tensor.detach().clone() for name, tensor in self._held()}
        self._gradients = {name: parameter.grad for name, parameter in model.named_parameters()}
        self._values = {name: None if each is None else each.clone() for name, each in self._gradients.items()}
        self._values_of = {id(each): self._values[name] for name, each in model.named_parameters()}
        self._random = _generators()
        # One copy of all: what is shared between them is shared between the copies.
        self._copy = copy.deepcopy((model, tuple(args), dict(kwargs)))
        # Copies of parameters have no gradients.
        for own, other in zip(model.parameters(), self._copy[0].parameters(), strict=True):
            other.grad = None if own.grad is None else own.grad.clone()

    @classmethod
    def of(cls, model: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> SelfCheck | None:
        """A check; None where no copy can be made: PyTorch copies parameters without their hooks."""
        if any(_is_copied_in_part(parameter) for parameter in model.parameters()):
            _LOGGER.info("the first call is not compared with eager's: a parameter has hooks, or a dtype of gradients")
            return None
        try:
            return cls(model, args, kwargs)
        except Exception as error:
            _LOGGER.info("the first call is not compared with eager's: %s", error)
            return None

    def compare(self, result: Any, eager: Callable[..., Any]) -> None:
        """Warn of results that are rounded otherwise than eager's.

        Raises InputError for others, with the module as it was before the call.
        result: of the planned call. eager: makes the call with a model and arguments.
        """
        ours = self._outcome(result, self._model, self._args, self._kwargs)
        model, args, kwargs = self._copy
        self._again = copy.deepcopy(self._copy)
        before = {name: parameter.grad for name, parameter in self._model.named_parameters()}
        try:
            with _generators_at(self._random):
                theirs = self._outcome(eager(model, args, kwargs), model, args, kwargs)
        except Exception as error:
            _LOGGER.info("the first call is not compared with eager's: %s", error)
            return
        if any(parameter.grad is not before[name] for name, parameter in self._model.named_parameters()):
            _LOGGER.info("the first call is not compared with eager's: its loss reads the module itself")
            return
        rounded, other = _differences(ours, theirs)
        if other and not self._is_repeatable(theirs, eager):
            _LOGGER.info("the first call is not compared with eager's, which is not the same twice")
            return
        if other:
            self._restore()
            name, most = max(other.items(), key=lambda each: each[1])
            raise InputError(
                f"the first planned call gives another {shown(name)} than eager (by {most:.1e}); the module is as it "
                "was before. PyTorch captures it otherwise than it runs: run it without a plan, or pass verify=False "
                "where the difference is meant"
            )
        if rounded:
            name, most = max(rounded.items(), key=lambda each: each[1])
            warnings.warn(
                f"{len(rounded)} results of the first planned call are rounded otherwise than eager's, {shown(name)} "
                f"the most (by {most:.1e})",
                stacklevel=4,
            )

    def _is_repeatable(self, first: _Outcome, eager: Callable[..., Any]) -> bool:
        """Whether a second call of eager's gives the same: it does not where it reads what a call changes outside."""
        model, args, kwargs = self._again
        for own, other in zip(self._model.parameters(), model.parameters(), strict=True):
            value = self._values_of[id(own)]
            other.grad = None if value is None else value.clone()
        with _generators_at(self._random):
            second = self._outcome(eager(model, args, kwargs), model, args, kwargs)
        return not any(_differences(first, second))

    def _held(self) -> Iterator[tuple[str, Any]]:
        yield from self._model.named_parameters()
        yield from self._model.named_buffers()

    def _outcome(self, result: Any, model: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> _Outcome:
        found: dict[str, Any] = {}
        for number, leaf in enumerate(_tensors((result,))):
            found[f"result {number}"] = leaf
        for name, parameter in model.named_parameters():
            found[f"'{name}'"] = parameter
            if parameter.grad is not None:
                found[f"gradient of '{name}'"] = parameter.grad
        for name, buffer in model.named_buffers():
            found[f"buffer '{name}'"] = buffer
        for number, leaf in enumerate(_tensors((args, kwargs))):
            found[f"argument {number}"] = leaf
            if leaf.is_leaf and leaf.grad is not None:
                found[f"gradient of argument {number}"] = leaf.grad
        return _Outcome(tensors={name: _kept(tensor) for name, tensor in found.items()}, drawn=torch.get_rng_state())

    def _restore(self) -> None:
        with torch.no_grad():
            for name, tensor in self._held():
                tensor.copy_(self._before[name])
            for name, parameter in self._model.named_parameters():
                parameter.grad, value = self._gradients[name], self._values[name]
                if value is not None:
                    parameter.grad.copy_(value)
        _set_generators(self._random)


def _is_copied_in_part(parameter: Any) -> bool:
    hooks = parameter._backward_hooks or getattr(parameter, "_post_accumulate_grad_hooks", None)
    return bool(hooks) or getattr(parameter, "grad_dtype", parameter.dtype) != parameter.dtype


def _kept(tensor: Any) -> Any:
    """A copy that can be compared."""
    tensor = tensor.detach()
    return tensor.clone() if tensor.layout == torch.strided else tensor.to_dense()


def _tensors(tree: Any) -> list[Any]:
    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def _differences(ours: _Outcome, theirs: _Outcome) -> tuple[dict[str, float], dict[str, float]]:
    """By name, how far from eager's: what is rounded otherwise, and what is another value."""
    rounded: dict[str, float] = {}
    other: dict[str, float] = {}
    gradients = [tensor for name, tensor in theirs.tensors.items() if name.startswith("gradient")]
    noise = _NOISE * max((_largest(tensor) for tensor in gradients), default=0.0)
    for name in dict.fromkeys((*ours.tensors, *theirs.tensors)):
        one, two = ours.tensors.get(name), theirs.tensors.get(name)
        if one is None or two is None or (one.shape, one.dtype) != (two.shape, two.dtype):
            other[name] = float("inf")
        elif not torch.equal(one, two) and (apart := _apart(one, two)):
            digit = _digit(one.dtype)
            most = (_MOST if digit < _FEW else _MOST_OF_FEW) * digit * _largest(two)
            if name.startswith("gradient"):
                most = max(most, noise * digit)
            (rounded if apart <= most else other)[name] = apart / max(_largest(two), 1e-30)
    if not torch.equal(ours.drawn, theirs.drawn):
        other["state of the generator of random numbers"] = float("inf")
    return rounded, other


def _apart(one: Any, two: Any) -> float:
    """The largest difference; 0 where NaN alone stands against NaN."""
    if not (one.is_floating_point() or one.is_complex()):
        return float((one != two).sum())
    differs = ~((one == two) | (one.isnan() & two.isnan()))
    wide = torch.complex128 if one.is_complex() else torch.float64
    apart = (one.to(wide) - two.to(wide)).abs()[differs]
    return float(apart.nan_to_num(nan=float("inf")).max()) if apart.numel() else 0.0


def _largest(tensor: Any) -> float:
    """The largest finite value of a tensor."""
    if not tensor.numel() or not (tensor.is_floating_point() or tensor.is_complex()):
        return 0.0
    values = tensor.abs()
    return float(torch.where(values.isfinite(), values, 0.0).max())


def _digit(dtype: torch.dtype) -> float:
    """What the last digit counts in which a result is computed, which autocast may make larger."""
    if not (dtype.is_floating_point or dtype.is_complex):
        return 0.0
    casts = [torch.get_autocast_dtype(kind) for kind in ("cpu", "cuda") if torch.is_autocast_enabled(kind)]
    return float(max(torch.finfo(each).eps for each in (dtype, *casts)))


def _generators() -> tuple[Any, ...]:
    return random.getstate(), np.random.get_state(), torch.get_rng_state()


def _set_generators(states: tuple[Any, ...]) -> None:
    random.setstate(states[0])
    np.random.set_state(states[1])
    torch.set_rng_state(states[2])


@contextmanager
def _generators_at(states: tuple[Any, ...]) -> Iterator[None]:
    """All generators as they were before a call; afterwards as they are now."""
    now = _generators()
    _set_generators(states)
    try:
        yield
    finally:
        _set_generators(now)
