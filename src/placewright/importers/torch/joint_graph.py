"""Forward and backward of a module in one functional graph, as AOTAutograd traces it.

Imported only where torch is known to be present.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import torch
import torch._inductor.config
from torch import nn
from torch._functorch import aot_autograd
from torch._functorch._aot_autograd import descriptors
from torch._guards import TracingContext, tracing
from torch.utils import _pytree as pytree

from placewright.importers.source_lines import module_of, source_of
from placewright.support.errors import InputError

#: AOTAutograd's mark on calls of the backward.
_BACKWARD = "is_backward"


def functional_graph(module: nn.Module, inputs: Sequence[Any], context: TracingContext) -> Any:
    """The graph of ATen calls, including the backward where gradients are on. Its placeholders and results have
    descriptors."""
    # With this the tracer keeps draws that nothing reads: later draws depend on them.
    draws_kept = torch._inductor.config.patch(fallback_random=True)
    with draws_kept, torch.fx.traceback.preserve_node_meta(), tracing(context), contextlib.ExitStack() as stack:
        graph = aot_autograd.aot_export_joint_with_descriptors(stack, module, tuple(inputs)).graph_module.graph
    _complete_phases(graph)
    return graph


def _complete_phases(graph: Any) -> None:
    """Marks the calls of a backward that the user has written as calls of the backward."""
    for node in graph.nodes:
        if "partitioner_tag" not in node.meta and any(_is_backward(each) for each in node.all_input_nodes):
            node.meta["partitioner_tag"] = _BACKWARD


def _is_backward(node: Any) -> bool:
    return bool(node.meta.get("partitioner_tag") == _BACKWARD)


def check_no_backward(graph: Any) -> None:
    """Raises InputError where the graph of an inference has a backward pass."""
    if any(isinstance(node.meta.get("desc"), descriptors.TangentAOTInput) for node in graph.nodes):
        raise InputError(
            "forward writes what wants a gradient, computed under torch.enable_grad(), to a tensor that outlives the "
            "call, and a planned inference has no gradients; write it under torch.no_grad()"
        )


def check_known(graph: Any, model: Any) -> None:
    """Raises InputError where a size depends on values of tensors."""
    for node in graph.nodes:
        for value in pytree.tree_leaves(node.meta.get("val")):
            sizes = value.shape if isinstance(value, torch.Tensor) else (value,)
            if any(isinstance(size, (torch.SymInt, torch.SymFloat, torch.SymBool)) for size in sizes):
                where = ", ".join(filter(None, (module_of(node), source_of(node))))
                raise InputError(
                    f"PyTorch cannot trace {type(model).__name__} with these arguments: what {node.target} gives "
                    f"depends on values, which are not known before it runs (in {where})"
                )


def reached_from(loss: Any) -> set[int]:
    """The identities of the tensors for which autograd computes gradients of a loss."""
    seen = {loss.grad_fn}
    waiting = [loss.grad_fn]
    while waiting:
        behind = {node for node, _ in waiting.pop().next_functions if node is not None} - seen
        seen |= behind
        waiting += behind
    return {id(node.variable) for node in seen if node.name() == "torch::autograd::AccumulateGrad"}
