"""Forward and backward of a graph whose checkpoints recompute: everything but the random numbers, which are kept.

PyTorch would make a random op reset the generator in backward, which all devices share. Imported only where torch is
known to be present.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._functorch.partitioners import default_partition, must_recompute
from torch.utils.checkpoint import CheckpointPolicy

from placewright.execution.pytorch.calls import TRAINED
from placewright.execution.pytorch.joint import overwritten
from placewright.importers.torch.dropout import divide_dropout, is_dropout
from placewright.importers.torch.dtypes import correct_dtypes
from placewright.importers.torch.ops import describe, draws_random_numbers, may_draw


def partition(joint: torch.fx.GraphModule, inputs: Any, **options: Any) -> tuple[Any, Any]:
    """The forward and the backward graph, partitioned as by PyTorch's default, but so that backward recomputes nothing
    that draws random numbers, and nothing that reads tensors overwritten by forward."""
    correct_dtypes(joint.graph.nodes)
    _note_trained(joint.graph)
    changed = overwritten(joint.graph)
    for node in [node for node in joint.graph.nodes if node.op == "call_function" and must_recompute(node)]:
        draws, reads = draws_random_numbers(node), not changed.isdisjoint(node.all_input_nodes)
        if reads and describe(node)[0] == "view":
            changed.add(node)
        elif draws and _is_dropout_on_host(node):
            _keep_mask(node)
        elif draws or reads:
            for kept in (node, *node.users) if isinstance(node.meta["val"], (tuple, list)) else (node,):
                kept.meta["recompute"] = CheckpointPolicy.MUST_SAVE
        elif may_draw(node):
            node.target = _Plain(node.target)
    forward, backward = default_partition(joint, inputs, **options)
    for module in (joint, forward, backward):
        for node in module.graph.nodes:
            if isinstance(node.target, _Plain):
                node.target = node.target.op
        module.recompile()
    return forward, backward


class _Plain:
    """A replacement for an op that may draw where it does not, such as attention without dropout: PyTorch goes by its
    name."""

    def __init__(self, op: Any) -> None:
        self.op = op
        self.__name__ = op.__name__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The result of the op."""
        return self.op(*args, **kwargs)


def _note_trained(graph: torch.fx.Graph) -> None:
    """Marks the recurrent layers that have a backward, which the forward part alone does not show."""
    forward, backward = torch.ops.aten.mkldnn_rnn_layer.default, torch.ops.aten.mkldnn_rnn_layer_backward.default
    for node in graph.find_nodes(op="call_function", target=forward):
        node.meta[TRAINED] = any(reader.target is backward for result in node.users for reader in result.users)


def keep_masks(joint: torch.fx.GraphModule) -> None:
    """Divides each dropout of the host into an op that draws and others that can run again."""
    for node in [node for node in joint.graph.nodes if node.op == "call_function" and _is_dropout_on_host(node)]:
        _keep_mask(node)


def _is_dropout_on_host(node: Any) -> bool:
    return is_dropout(node) and bool(node.meta["val"][0].is_cpu)


def _keep_mask(node: Any) -> None:
    divide_dropout(node).meta["recompute"] = CheckpointPolicy.MUST_SAVE
