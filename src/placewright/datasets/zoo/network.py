"""What one entry of the zoo is: a module, the arguments it is called with, and which graphs are taken of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from torch import nn

Mode = Literal["inference", "training"]


@dataclass(frozen=True, kw_only=True)
class Network:
    """One architecture at one size.

    name: unique, like 'resnet50'.
    family: like 'residual', the same for all entries of a file.
    build: makes the module and the positional arguments of its forward pass; called under `FakeTensorMode`, so that
        nothing costs memory.
    modes: which graphs are taken of it.
    """

    name: str
    family: str
    build: Callable[[], tuple[nn.Module, tuple[Any, ...]]]
    modes: tuple[Mode, ...] = ("inference", "training")
