"""Dropout as one op that draws and others that do not.

Imported only where torch is known to be present.
"""

from __future__ import annotations

import operator

import torch
from torch import fx

from placewright.importers.torch.added import added
from placewright.importers.torch.attributes import arguments_of

_ATEN = torch.ops.aten


def is_dropout(node: fx.Node) -> bool:
    """True if a node is a dropout that draws, and would draw the same for another tensor of the shape of its input."""
    if node.target is not _ATEN.native_dropout.default:
        return False
    arguments = arguments_of(node)
    value = arguments["input"].meta["val"]
    # For a tensor with gaps the drawn one has none, and a GPU's kernel draws in memory order.
    return bool(arguments["train"]) and not (_draws_by_itself(value) and value.numel() != _span(value))


def divide_dropout(node: fx.Node) -> fx.Node:
    """Replaces a dropout by the steps of its kernel, of which only the first draws. Returns what is drawn.

    Only a byte for each element of it has to be kept. The rest can be computed again, or in parts.
    """
    arguments = arguments_of(node)
    value, kept = arguments["input"], 1.0 - arguments["p"]
    with node.graph.inserting_before(node):
        # The drawn tensor has the layout of the value, in whose order eager draws.
        if _draws_by_itself(value.meta["val"]) and kept:
            blank = added(node, _ATEN.empty_like.default, value)
            drawn = added(node, _ATEN.native_dropout.default, blank, arguments["p"], True)
            mask = added(node, operator.getitem, drawn, 1)
            scaled = added(node, _ATEN.mul.Tensor, added(node, _ATEN.mul.Tensor, value, mask), 1.0 / kept)
        else:
            blank = added(node, _ATEN.empty_like.default, value, dtype=torch.bool)
            mask = added(node, _ATEN.bernoulli.p, blank, kept)
            noise = added(node, _ATEN._to_copy.default, mask, dtype=value.meta["val"].dtype)
            # Divides like eager: multiplying by the inverse has other last bits.
            scale = added(node, _ATEN.div.Tensor, noise, kept) if kept else added(node, _ATEN.mul.Tensor, noise, 0.0)
            scaled = added(node, _ATEN.mul.Tensor, value, scale)
    for result in list(node.users):
        result.replace_all_uses_with(mask if result.args[1] else scaled)
        node.graph.erase_node(result)
    node.graph.erase_node(node)
    return mask


def _draws_by_itself(value: torch.Tensor) -> bool:
    """True if only the kernel of dropout draws these numbers, which depend on the dtype."""
    return bool(value.is_cuda)


def _span(value: torch.Tensor) -> int:
    """The number of elements of memory that a tensor spans."""
    return 1 + sum((int(size) - 1) * int(step) for size, step in zip(value.shape, value.stride(), strict=True))
