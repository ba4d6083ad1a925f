"""The states that an optimizer keeps for each parameter."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, get_args

from placewright.support.errors import InputError, shown

Optimizer = Literal["sgd", "adam", "adamw"]
_MOMENTS = ("exp_avg", "exp_avg_sq")
#: The tensors an optimizer keeps for each parameter, of its shape and dtype, as PyTorch's and Optax's do. Settings are
#: added to its name after "-".
OPTIMIZER_STATES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "sgd": (),
        "sgd-momentum": ("momentum_buffer",),
        "adam": _MOMENTS,
        "adam-amsgrad": (*_MOMENTS, "max_exp_avg_sq"),
        "adamw": _MOMENTS,
        "adamw-amsgrad": (*_MOMENTS, "max_exp_avg_sq"),
    }
)


def check_optimizer(name: str) -> None:
    """Raises InputError for an unknown optimizer."""
    if name not in get_args(Optimizer):
        raise InputError(f"unknown optimizer '{shown(name)}' (known: {', '.join(get_args(Optimizer))})")
