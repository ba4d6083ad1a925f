"""Ops for graphs that Inductor compiles: they copy tensors to the host's memory and back, concurrently with
computation.

Each copy is begun by one op and awaited by another, as collectives are in PyTorch. The second one also reads the
source, so that Inductor frees that afterwards, when the computing stream has waited for the copy.

PyTorch has such ops, `ao::offload` and so on. These copy rows as they lie, where PyTorch's make a temporary tensor of
one that is not contiguous, and they take their streams from a `Driver`.

Imported only where torch is known to be present.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import torch
from torch import fx

from placewright.execution.pytorch.cuda import Gpus
from placewright.execution.pytorch.moves import Moves, moves
from placewright.execution.pytorch.places import Place, on_stream

_LIBRARY = torch.library.Library("placewright", "FRAGMENT")
# They take a tensor in the layout that Inductor chose, and wait for events that no recording has.
for _schema in (
    "offload(Tensor tensor) -> Tensor",
    "reload(Tensor copy, Device device) -> Tensor",
    "wait(Tensor(a) copy, Tensor source) -> Tensor(a)",
):
    _LIBRARY.define(_schema, tags=(torch.Tag.flexible_layout, torch.Tag.cudagraph_unsafe))

OFFLOAD = torch.ops.placewright.offload.default
RELOAD = torch.ops.placewright.reload.default
WAIT = torch.ops.placewright.wait.default

#: The moves and the event of each copy, by its address, from its beginning until an op waits for it.
_BEGUN: dict[int, tuple[Moves, Any]] = {}


def is_at_host(node: fx.Node) -> bool:
    """True if a node is a copy in the host's memory."""
    source: Any = node.args[0] if node.target is WAIT else node
    return isinstance(source, fx.Node) and source.target is OFFLOAD


@cache
def place_of(device: torch.device) -> Place:
    """The place of a device, with streams for copies."""
    return on_stream(str(device), Gpus.driver(device.index or 0))


def _moves(device: torch.device) -> Moves:
    """The moves next to what the calling thread launches now."""
    place = place_of(device)
    assert place.driver is not None
    return moves(replace(place, stream=place.driver.current_stream()))


def _offload(tensor: torch.Tensor) -> torch.Tensor:
    found = _moves(tensor.device)
    copy, done = found.leave(tensor)
    _BEGUN[copy.data_ptr()] = found, done
    return copy


def _reload(copy: torch.Tensor, device: torch.device) -> torch.Tensor:
    found = _moves(device)
    tensor, done = found.fetch((copy, None))
    _BEGUN[tensor.data_ptr()] = found, done
    return tensor


def _wait(copy: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
    found, done = _BEGUN.pop(copy.data_ptr())
    found.left((copy, done))
    return copy


for _name, _function in (("offload", _offload), ("reload", _reload), ("wait", _wait)):
    _LIBRARY.impl(_name, _function, "CompositeExplicitAutograd")


def _fake_offload(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="cpu")


def _fake_reload(copy: torch.Tensor, device: torch.device) -> torch.Tensor:
    return torch.empty_strided(copy.shape, copy.stride(), dtype=copy.dtype, device=device)


_FAKES: dict[str, Callable[..., Any]] = {"offload": _fake_offload, "reload": _fake_reload, "wait": lambda copy, _: copy}
for _name, _fake in _FAKES.items():
    torch.library.register_fake(f"placewright::{_name}", _fake, lib=_LIBRARY)
