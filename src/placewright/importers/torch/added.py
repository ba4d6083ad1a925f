"""Calls that are added to a captured graph.

Imported only where torch is known to be present.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree


def added(like: fx.Node, function: Any, *args: Any, graph: fx.Graph | None = None, **options: Any) -> fx.Node:
    """A call where its graph inserts now, with the origin of the node `like`. graph: if not the one of that node."""
    made = (graph or like.graph).call_function(function, args, options)
    made.meta = {key: value for key, value in like.meta.items() if key != "tensor_meta"}
    known = fx.map_arg(args, lambda node: node.meta["val"])
    tensors = pytree.tree_leaves([known, [node.meta["val"] for node in like.all_input_nodes]])
    with next(each for each in tensors if isinstance(each, torch.Tensor)).fake_mode:
        made.meta["val"] = function(*known, **options)
    return made
