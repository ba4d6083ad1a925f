"""Tensors as rows of memory, so that they keep their strides when they move: an op may compute other last bits for
another layout, and views depend on it.

Imported only where torch is known to be present.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

#: A tensor with more memory between its elements than this many times their own is packed before it moves.
_MOST_GAPS = 2


def extent_of(tensor: Any) -> int:
    """The number of elements of memory from the first to the last of a tensor, both included."""
    if tensor.numel() == 0:
        return 0
    return 1 + sum(int((size - 1) * stride) for size, stride in zip(tensor.shape, tensor.stride(), strict=True))


def is_laid_out_for(gradient: Any, parameter: Any) -> bool:
    """True if autograd would take a gradient as a parameter's without a copy, by its strides."""
    if not torch.ops.aten.is_non_overlapping_and_dense.default(parameter):
        return bool(gradient.is_contiguous())
    strides = zip(gradient.shape, gradient.stride(), parameter.stride(), strict=True)
    return all(own == other if size != 1 else own != 0 for size, own, other in strides)


def laid_out_for(gradient: Any, parameter: Any) -> Any:
    """A copy of a gradient with the layout of its parameter; without gaps where the parameter has some."""
    is_dense = torch.ops.aten.is_non_overlapping_and_dense.default(parameter)
    layout = torch.preserve_format if is_dense else torch.contiguous_format
    return torch.empty_like(parameter, requires_grad=False, memory_format=layout).copy_(gradient)


def moved(tensor: Any, move: Callable[[Any], Any]) -> Any:
    """A tensor with this one's shape and strides, in the memory that `move` makes from a row. Only copies of whole rows
    are left to the device by PyTorch: for others it makes a temporary tensor, and reads it before the device has
    written it."""
    if tensor.layout != torch.strided:
        return move(tensor)
    tensor = tensor.detach().resolve_conj().resolve_neg()
    extent = extent_of(tensor)
    if extent > _MOST_GAPS * tensor.numel():
        tensor = tensor.clone()
        extent = extent_of(tensor)
    return move(tensor.as_strided((extent,), (1,))).as_strided(tensor.shape, tensor.stride(), 0)
