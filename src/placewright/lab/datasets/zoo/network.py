"""An entry of the zoo: a module, the arguments it is called with, and the graphs that are captured from it."""

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
    family: like 'residual'; networks of one family are alike.
    library: where its code comes from, like 'pytorchcv'; 'placewright' for those written here.
    build: makes the module and the positional arguments of its forward pass.
    reads_values: `build` reads numbers from tensors; otherwise it is called under `FakeTensorMode`, so that nothing
        costs memory.
    modes: the graphs that are captured.
    """

    name: str
    family: str
    library: str
    build: Callable[[], tuple[nn.Module, tuple[Any, ...]]]
    reads_values: bool = False
    modes: tuple[Mode, ...] = ("inference", "training")
