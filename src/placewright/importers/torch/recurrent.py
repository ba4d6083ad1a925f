"""Recurrent calls with dropout between their layers, as one call per layer.

Imported only where torch is known to be present.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

#: The names of recurrent functions.
RECURRENT = frozenset({"lstm", "gru", "rnn_tanh", "rnn_relu"})


def split_layers(graph: torch.fx.Graph) -> None:
    """Makes the recurrent calls of a graph that is to be traced run layer by layer where they drop between layers."""
    for node in graph.nodes:
        if node.op == "call_function" and getattr(node.target, "__name__", "") in RECURRENT and not node.kwargs:
            node.target = partial(_made, node.target)


def _made(function: Callable[..., Any], *args: Any) -> Any:
    return layer_by_layer(function, args)


def layer_by_layer(function: Callable[..., Any], args: Sequence[Any]) -> Any:
    """A recurrent call; with dropout between its layers, one call per layer and the dropout between them.

    PyTorch's own decomposition, which tracing would take, never drops: it compares the number of layers with the number
    of the layer the wrong way round.
    """
    packed = isinstance(args[3], (tuple, list)) if len(args) > 3 else False
    first = args[:2] if packed else args[:1]
    states, weights, has_biases, layers, dropout, train, bidirectional, *batch_first = args[len(first) :]
    if not (dropout and train and layers > 1):
        return function(*args)
    value, *sizes = first
    turned = bool(batch_first and batch_first[0])
    value = value.transpose(0, 1) if turned else value
    several = isinstance(states, (tuple, list))
    directions = 2 if bidirectional else 1
    each = len(weights) // (layers * directions) * directions
    found = []
    for layer in range(layers):
        part = slice(layer * directions, (layer + 1) * directions)
        own = [state[part] for state in states] if several else states[part]
        rest = (weights[layer * each : (layer + 1) * each], has_biases, 1, 0.0, train, bidirectional)
        value, *ends = function(value, *sizes, own, *rest, *([False] if batch_first else []))
        found.append(ends)
        if layer + 1 < layers:
            value = torch.dropout(value, dropout, True)
    ends = [torch.cat(layers_of) for layers_of in zip(*found, strict=True)]
    return (value.transpose(0, 1) if turned else value, *ends)
