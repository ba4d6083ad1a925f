"""Dropout as an op that draws and others that do not.

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
    """Whether a node is a dropout that draws, of a tensor for whose elements another in its place draws the same."""
    if node.target is not _ATEN.native_dropout.default:
        return False
    arguments = arguments_of(node)
    value = arguments["input"].meta["val"]
    # A tensor with gaps has another one without them beside it, and a GPU's kernel draws in the order of memory.
    return bool(arguments["train"]) and not (_draws_by_itself(value) and value.numel() != _span(value))


def divide_dropout(node: fx.Node) -> fx.Node:
    """Replaces a dropout by the steps that its kernel takes, of which only the first draws. Returns what is drawn.

    What has to be kept of it is a byte for each element. The rest can be computed again, or in parts.
    """
    arguments = arguments_of(node)
    value, kept = arguments["input"], 1.0 - arguments["p"]
    with node.graph.inserting_before(node):
        # What is drawn lies as the value does, in whose order eager draws.
        if _draws_by_itself(value.meta["val"]) and kept:
            blank = added(node, _ATEN.empty_like.default, value)
            drawn = added(node, _ATEN.native_dropout.default, blank, arguments["p"], True)
            mask = added(node, operator.getitem, drawn, 1)
            scaled = added(node, _ATEN.mul.Tensor, added(node, _ATEN.mul.Tensor, value, mask), 1.0 / kept)
        else:
            blank = added(node, _ATEN.empty_like.default, value, dtype=torch.bool)
            mask = added(node, _ATEN.bernoulli.p, blank, kept)
            noise = added(node, _ATEN._to_copy.default, mask, dtype=value.meta["val"].dtype)
            # Divided as eager divides: multiplying by the inverse has other last bits.
            scale = added(node, _ATEN.div.Tensor, noise, kept) if kept else added(node, _ATEN.mul.Tensor, noise, 0.0)
            scaled = added(node, _ATEN.mul.Tensor, value, scale)
    for result in list(node.users):
        result.replace_all_uses_with(mask if result.args[1] else scaled)
        node.graph.erase_node(result)
    node.graph.erase_node(node)
    return mask


def _draws_by_itself(value: torch.Tensor) -> bool:
    """Whether no other kernel draws what that of dropout draws, which depends on the dtype."""
    return bool(value.is_cuda)


def _span(value: torch.Tensor) -> int:
    """How many places a tensor lies across."""
    return 1 + sum((int(size) - 1) * int(step) for size, step in zip(value.shape, value.stride(), strict=True))
