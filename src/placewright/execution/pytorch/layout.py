"""Tensors as rows of memory, so that they keep their strides wherever they go: an op may compute other last bits for
another layout, and what views it depends on it.

Imported only where torch is known to be present.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

#: A tensor with more memory between its elements than this many times their own is packed before it moves.
_MOST_GAPS = 2


def extent_of(tensor: Any) -> int:
    """How many elements of memory lie between the first and the last of a tensor, both counted."""
    if tensor.numel() == 0:
        return 0
    return 1 + sum(int((size - 1) * stride) for size, stride in zip(tensor.shape, tensor.stride(), strict=True))


def packed(tensor: Any) -> Any:
    """The elements as one row: the memory as it is, or without its gaps where it has any."""
    extent = extent_of(tensor)
    return tensor.as_strided((extent,), (1,)) if extent <= tensor.numel() else tensor.contiguous().view(-1)


def moved(tensor: Any, move: Callable[[Any], Any]) -> Any:
    """A tensor like this one of the memory that `move` makes of a row. Copies of whole rows are the only ones that
    PyTorch leaves to the device: for others it makes a temporary tensor, and reads it before the device has written it.
    """
    if tensor.layout != torch.strided:
        return move(tensor)
    tensor = tensor.detach().resolve_conj().resolve_neg()
    extent = extent_of(tensor)
    if extent > _MOST_GAPS * tensor.numel():
        tensor = tensor.clone()
        extent = extent_of(tensor)
    return move(tensor.as_strided((extent,), (1,))).as_strided(tensor.shape, tensor.stride(), 0)
