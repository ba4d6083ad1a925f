"""A captured step made ready for stretches to be found in it, which computes the same but for last bits.

Imported only where torch is known to be present.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx

from placewright.importers.torch.attributes import arguments_of

_ATEN = torch.ops.aten
_LIKELIHOODS = (_ATEN.nll_loss_forward.default, _ATEN.nll_loss2d_forward.default)
_SUM = 2
_VIEWS = frozenset({"view.default", "_unsafe_view.default", "reshape.default", "detach.default", "alias.default"})


def prepare(graph: fx.Graph) -> None:
    """Changes a joint graph so that stretches can be found: fewer views, constants by themselves, means as sums."""
    _read_through_views(graph)
    _make_constants_alone(graph)
    _divide_sums(graph)


def _read_through_views(graph: fx.Graph) -> None:
    """Has ops read a tensor itself instead of a view of views that shows it as it is.

    Rows that are merged, divided into samples and merged again have an axis of samples on the way, which is shorter.
    """
    for node in list(graph.nodes):
        if not _is_view(node):
            continue
        root = node
        while _is_view(root):
            root = root.args[0]
            if _is_laid_out_alike(root, node):
                node.replace_all_uses_with(root, lambda user: user.op != "output")
    _drop_unread_views(graph)


def _is_view(node: fx.Node) -> bool:
    return node.op == "call_function" and getattr(node.target, "__name__", "") in _VIEWS


def _is_laid_out_alike(node: fx.Node, other: fx.Node) -> bool:
    first, second = node.meta["val"], other.meta["val"]
    return (first.shape, first.stride(), first.dtype) == (second.shape, second.stride(), second.dtype)


def _drop_unread_views(graph: fx.Graph) -> None:
    for node in reversed(list(graph.nodes)):
        if _is_view(node) and not node.users:
            graph.erase_node(node)


def _make_constants_alone(graph: fx.Graph) -> None:
    """Has tensors of one number, and those without numbers yet, be made without the tensor that says how they lie."""
    for target, number in ((_ATEN.new_zeros.default, 0), (_ATEN.new_ones.default, 1)):
        for node in graph.find_nodes(op="call_function", target=target):
            like = node.meta["val"]
            with graph.inserting_before(node):
                size = list(like.shape)
                filled = _call(node, _ATEN.full.default, size, number, dtype=like.dtype, device=like.device)
            node.replace_all_uses_with(filled)
            graph.erase_node(node)
    for node in graph.find_nodes(op="call_function", target=_ATEN.empty_like.default):
        like = node.meta["val"]
        with graph.inserting_before(node):
            lying = {"dtype": like.dtype, "device": like.device}
            blank = _call(node, _ATEN.empty_strided.default, list(like.shape), list(like.stride()), **lying)
        node.replace_all_uses_with(blank)
        graph.erase_node(node)


def _divide_sums(graph: fx.Graph) -> None:
    """Changes means to sums that are divided by how many elements or rows count.

    A mean of log-likelihoods divides by the number of targets that are not ignored, which is known before the rows are.
    A sum in float16 could be too large where the mean is not.
    """
    for target in _LIKELIHOODS:
        for node in graph.find_nodes(op="call_function", target=target):
            arguments = arguments_of(node)
            is_mean = arguments["reduction"] == 1 and arguments["weight"] is None
            if is_mean and arguments["self"].meta["val"].dtype != torch.float16:
                _change(graph, node, arguments)
    for node in graph.find_nodes(op="call_function", target=_ATEN.mean.default):
        if node.meta["val"].dtype == torch.float16:
            continue
        with graph.inserting_before(node):
            total = _call(node, _ATEN.sum.default, node.args[0], **node.kwargs)
            mean = _call(node, _ATEN.div.Scalar, total, node.args[0].meta["val"].numel())
        node.replace_all_uses_with(mean)
        graph.erase_node(node)


def _change(graph: fx.Graph, node: fx.Node, arguments: dict[str, Any]) -> None:
    rows, targets, ignored = arguments["self"], arguments["target"], arguments["ignore_index"]
    with graph.inserting_before(node):
        counts = _call(node, _ATEN.ne.Scalar, targets, ignored)
        count = _call(node, _ATEN.sum.default, counts, dtype=rows.meta["val"].dtype)
        total = _call(node, node.target, rows, targets, None, _SUM, ignored)
        added = _call(node, operator.getitem, total, 0)
        mean = _call(node, _ATEN.div.Tensor, added, count)
    for pick in list(node.users):
        pick.replace_all_uses_with(count if pick.args[1] else mean)
        graph.erase_node(pick)
    graph.erase_node(node)


def _call(like: fx.Node, function: Any, *args: Any, **options: Any) -> fx.Node:
    made = like.graph.call_function(function, args, options)
    made.meta = {key: value for key, value in like.meta.items() if key not in ("val", "tensor_meta")}
    values = fx.map_arg(args, lambda node: node.meta["val"])
    with like.all_input_nodes[0].meta["val"].fake_mode:
        made.meta["val"] = function(*values, **options)
    return made
