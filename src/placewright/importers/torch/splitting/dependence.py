"""Dependence between the nodes of a captured graph, and whether it is linear.

Imported only where torch is known to be present.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Collection
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from placewright.importers.torch.attributes import arguments_of
from placewright.importers.torch.capture import descendants
from placewright.importers.torch.splitting.axes import draws

#: Ops whose result is linear in each of these arguments, while the others do not change.
_FACTORS = {
    "mul.Tensor": ("self", "other"),
    "mul.Scalar": ("self",),
    "div.Tensor": ("self",),
    "div.Scalar": ("self",),
    "mm.default": ("self", "mat2"),
    "bmm.default": ("self", "mat2"),
    "sum.default": ("self",),
    "sum.dim_IntList": ("self",),
    "mean.dim": ("self",),
    "neg.default": ("self",),
    "clone.default": ("self",),
    "_to_copy.default": ("self",),
    "alias.default": ("self",),
    "detach.default": ("self",),
    "expand.default": ("self",),
    "_unsafe_view.default": ("self",),
    "reshape.default": ("self",),
    "index_select.default": ("self",),
    "flip.default": ("self",),
    "roll.default": ("self",),
    "pixel_shuffle.default": ("self",),
    "pixel_unshuffle.default": ("self",),
    "native_dropout_backward.default": ("grad_output",),
    "_softmax_backward_data.default": ("grad_output",),
    "_log_softmax_backward_data.default": ("grad_output",),
}
#: Ops that are linear in all of these arguments together.
_TERMS = {
    "add.Tensor": ("self", "other"),
    "sub.Tensor": ("self", "other"),
    "cat.default": ("tensors",),
    "stack.default": ("tensors",),
}
#: Without float16: its gradients for a loss gradient of 1 may be too small, where those for the scaled one are not.
_LINEAR_DTYPES = (torch.bfloat16, torch.float32, torch.float64)


def draws_before(graph: fx.Graph) -> dict[fx.Node, fx.Node]:
    """Map each draw of random numbers to the one before: other numbers are drawn in another order."""
    return {later: earlier for earlier, later in itertools.pairwise(filter(draws, graph.nodes))}


def linear_in(graph: fx.Graph, starts: Collection[fx.Node]) -> set[fx.Node]:
    """Nodes that are linear functions of these: twice the values give twice the results."""
    found = set(starts)
    reached = descendants(starts, graph.nodes)
    for node in graph.nodes:
        if node in found or node not in reached or node.op != "call_function":
            continue
        if node.target is operator.getitem:
            if node.args[0] in found:
                found.add(node)
        elif isinstance(node.target, torch._ops.OpOverload) and _is_linear(node, reached, found):
            found.add(node)
    return found


def numbers_of(
    graph: fx.Graph, tangents: Collection[fx.Node], late: Collection[fx.Node], linear: Collection[fx.Node]
) -> set[fx.Node]:
    """Single numbers, and views of them, that are linear in the gradient of a loss.

    They depend on the gradient only through each other. late: nodes that depend on the gradient; linear: those that do
    so linearly.
    """
    found = set(tangents)
    for node in graph.nodes:
        if node not in linear or node in found or not isinstance(node.meta.get("val"), torch.Tensor):
            continue
        is_small = node.meta["val"].numel() == 1 or getattr(node.target, "is_view", False)
        if is_small and all(source in found or source not in late for source in node.all_input_nodes):
            found.add(node)
    return found


def _is_linear(node: fx.Node, reached: Collection[fx.Node], linear: Collection[fx.Node]) -> bool:
    name = node.target.__name__
    if name == "view.dtype" or not all(each.dtype in _LINEAR_DTYPES for each in _made(node)):
        return False
    arguments = arguments_of(node)
    depends = {
        argument: leaves
        for argument, value in arguments.items()
        if (leaves := [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, fx.Node)])
        and any(leaf in reached for leaf in leaves)
    }
    if not all(leaf in linear for leaves in depends.values() for leaf in leaves):
        return False
    if name in _TERMS:
        values = [leaf for each in _TERMS[name] for leaf in pytree.tree_leaves(arguments[each])]
        return all(isinstance(value, fx.Node) and value in linear for value in values)
    if name == "where.self":
        return "condition" not in depends and all(
            arguments[each] in linear or _is_zero(arguments[each]) for each in ("self", "other")
        )
    if name in ("masked_fill.Scalar", "constant_pad_nd.default"):
        return set(depends) == {"self"} and arguments["value"] == 0
    if len(depends) != 1:
        return False
    (argument,) = depends
    if name in _FACTORS:
        return argument in _FACTORS[name]
    first = node.target._schema.arguments[0].name
    is_gradient = argument in ("grad_output", "grad_out", "grad", "out_grad") or (argument == first and "grad" in first)
    if name.partition(".")[0].endswith("_backward"):
        return is_gradient
    return bool(node.target.is_view) and argument == first


def _made(node: fx.Node) -> list[torch.Tensor]:
    return [each for each in pytree.tree_leaves(node.meta["val"]) if isinstance(each, torch.Tensor)]


def _is_zero(value: Any) -> bool:
    """True if an argument consists of zeros."""
    if not isinstance(value, fx.Node):
        return bool(value == 0)
    target = getattr(value.target, "__name__", "")
    if target in ("full.default", "full_like.default", "scalar_tensor.default"):
        return bool(value.args[0 if target.startswith("scalar") else 1] == 0)
    return target in ("zeros.default", "zeros_like.default")
