"""A captured step prepared so that stretches can be found in it; it computes the same but for last bits.

Imported only where torch is known to be present.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from placewright.importers.torch.added import added
from placewright.importers.torch.attributes import arguments_of
from placewright.importers.torch.dropout import divide_dropout, is_dropout

_ATEN = torch.ops.aten
_LIKELIHOODS = (_ATEN.nll_loss_forward.default, _ATEN.nll_loss2d_forward.default)
_DISTANCES = tuple(
    getattr(_ATEN, f"{name}{suffix}").default
    for name in ("mse_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy")
    for suffix in ("", "_backward")
)
_MEAN, _SUM = 1, 2
_VIEWS = frozenset({"view.default", "_unsafe_view.default", "reshape.default", "detach.default", "alias.default"})


def prepare(graph: fx.Graph) -> None:
    """Changes a joint graph so that stretches can be found: fewer views, constants by themselves, means as sums."""
    _read_through_storages(graph)
    _read_through_views(graph)
    _make_constants_alone(graph)
    _divide_sums(graph)


def divide_dropouts(graph: fx.Graph) -> None:
    """Makes the step draw masks as a whole, and read them where they are."""
    for node in graph.find_nodes(op="call_function", target=_ATEN.native_dropout.default):
        if is_dropout(node):
            divide_dropout(node)
    _make_constants_alone(graph)


def _read_through_storages(graph: fx.Graph) -> None:
    """Makes ops read what is written over a whole storage, instead of the storage.

    PyTorch makes these when it differentiates strides of axes of length one, which a mean over all pixels has.
    """
    for node in graph.find_nodes(op="call_function", target=_ATEN.as_strided.default):
        storage = node.args[0]
        if storage.target is not _ATEN.as_strided_scatter.default or storage.args[1].target is not _ATEN.copy.default:
            continue
        written = storage.args[1].args[1]
        places = _places(*storage.args[2:])
        size = node.meta["val"].shape
        is_whole = storage.meta["val"].numel() == node.meta["val"].numel() == written.meta["val"].numel()
        if places is None or places != _places(*node.args[1:]) or not is_whole:
            continue
        with graph.inserting_before(node):
            if not written.meta["val"].is_contiguous():
                written = added(node, _ATEN.clone.default, written, memory_format=torch.contiguous_format)
            node.replace_all_uses_with(added(node, _ATEN.view.default, written, list(size)))
        for each in (node, storage, storage.args[1], storage.args[1].args[0], storage.args[0]):
            if not each.users and each.op == "call_function":
                graph.erase_node(each)


def _places(size: Sequence[int], stride: Sequence[int], offset: int | None = None) -> list[tuple[int, int]] | None:
    """The extents and strides of a tensor whose elements are contiguous from the first on; None for others."""
    found = [(extent, step) for extent, step in zip(size, stride, strict=True) if extent > 1]
    width = 1
    for extent, step in reversed(found):
        if step != width:
            return None
        width *= extent
    return None if offset else found


def _read_through_views(graph: fx.Graph) -> None:
    """Makes ops read a tensor itself instead of a view of views that is identical to it.

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
    """Makes tensors of one number, and empty ones, without reading the tensor that defines their layout."""
    for target, number in ((_ATEN.new_zeros.default, 0), (_ATEN.new_ones.default, 1)):
        for node in graph.find_nodes(op="call_function", target=target):
            like = node.meta["val"]
            with graph.inserting_before(node):
                size = list(like.shape)
                filled = added(node, _ATEN.full.default, size, number, dtype=like.dtype, device=like.device)
            node.replace_all_uses_with(filled)
            graph.erase_node(node)
    for node in [
        node
        for target in (_ATEN.empty_like.default, _ATEN.new_empty.default)
        for node in graph.find_nodes(op="call_function", target=target)
    ]:
        like = node.meta["val"]
        with graph.inserting_before(node):
            lying = {"dtype": like.dtype, "device": like.device}
            blank = added(node, _ATEN.empty_strided.default, list(like.shape), list(like.stride()), **lying)
        node.replace_all_uses_with(blank)
        graph.erase_node(node)


def _divide_sums(graph: fx.Graph) -> None:
    """Changes means to sums that are divided by the number of elements or rows.

    A mean of log-likelihoods divides by the number of targets that are not ignored, which is known before the rows are.
    A sum in float16 could be too large where the mean is not.
    """
    for target in _LIKELIHOODS:
        for node in graph.find_nodes(op="call_function", target=target):
            arguments = arguments_of(node)
            is_mean = arguments["reduction"] == _MEAN and arguments["weight"] is None
            if is_mean and arguments["self"].meta["val"].dtype != torch.float16:
                _change(graph, node, arguments)
    for node in graph.find_nodes(op="call_function", target=_ATEN.mean.default):
        if node.meta["val"].dtype != torch.float16:
            with graph.inserting_before(node):
                total = added(node, _ATEN.sum.default, node.args[0], **node.kwargs)
                mean = added(node, _ATEN.div.Scalar, total, node.args[0].meta["val"].numel())
            node.replace_all_uses_with(mean)
            graph.erase_node(node)
    for target in _DISTANCES:
        for node in graph.find_nodes(op="call_function", target=target):
            _sum_distances(graph, node)


def _sum_distances(graph: fx.Graph, node: fx.Node) -> None:
    """Changes a mean of distances, or its gradient, to that of the sum."""
    arguments = arguments_of(node)
    like = arguments["self"].meta["val"]
    if arguments["reduction"] != _MEAN or like.dtype == torch.float16:
        return
    arguments["reduction"] = _SUM
    with graph.inserting_before(node):
        if "grad_output" in arguments:
            arguments["grad_output"] = added(node, _ATEN.div.Scalar, arguments["grad_output"], like.numel())
        made = added(node, node.target, *(arguments[each.name] for each in node.target._schema.arguments))
        if "grad_output" not in arguments:
            made = added(node, _ATEN.div.Scalar, made, like.numel())
    node.replace_all_uses_with(made)
    graph.erase_node(node)


def _change(graph: fx.Graph, node: fx.Node, arguments: dict[str, Any]) -> None:
    rows, targets, ignored = arguments["self"], arguments["target"], arguments["ignore_index"]
    with graph.inserting_before(node):
        counts = added(node, _ATEN.ne.Scalar, targets, ignored)
        count = added(node, _ATEN.sum.default, counts, dtype=rows.meta["val"].dtype)
        total = added(node, node.target, rows, targets, None, _SUM, ignored)
        mean = added(node, _ATEN.div.Tensor, added(node, operator.getitem, total, 0), count)
    for pick in list(node.users):
        pick.replace_all_uses_with(count if pick.args[1] else mean)
        graph.erase_node(pick)
    graph.erase_node(node)
