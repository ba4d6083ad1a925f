"""Forward and backward of a PyTorch module as a Graph without an optimizer, and which results are gradients.

Imported only where torch is known to be present.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from torch import nn

from placewright.importers.forward_backward import ForwardBackward
from placewright.importers.torch.autocast import under_autocast
from placewright.importers.torch.capture import capture
from placewright.importers.torch.front import trace_joint
from placewright.importers.torch.graph import translate
from placewright.importers.torch.joint import Joint
from placewright.importers.torch.module import positional
from placewright.importers.torch.splitting.choices import Choice, choices, divided


def traced_pass(
    model: nn.Module,
    args: Any,
    kwargs: Mapping[str, Any],
    *,
    loss: Callable[[Any], Any] | None = None,
    autocast: str | None = None,
) -> Joint:
    """Traces one forward and backward pass.

    autocast: None for the module as it is; "gpu" or "cpu" for it under autocast in bfloat16 by the rules of such a
    device. Raises InputError as `from_torch` does.
    """
    cast = contextlib.nullcontext() if autocast is None else under_autocast(model, on_gpus=autocast == "gpu")
    with cast:
        return trace_joint(model, positional(args), kwargs, training=True, loss=loss)


def forward_backward(traced: Joint, name: str) -> ForwardBackward:
    """The pass as a graph with that name."""
    found = capture(traced)
    graph, tensors = translate(found, name, None, copies=False)
    pairs = ((tensors[parameter][0], tensors[gradient][0]) for parameter, gradient in found.gradients)
    return ForwardBackward(
        graph=graph,
        gradients=tuple((of, gradient) for of, gradient in pairs if of is not None and gradient is not None),
    )


def splits_of(traced: Joint) -> list[Choice]:
    """The stretches of ops that can run in parts, other than all samples.

    Changes the graph to an equivalent one.
    """
    return [choice for choice in choices(traced.graph, inputs=()) if choice.counts]


def in_parts(traced: Joint, name: str, choice: Choice, num_parts: int) -> ForwardBackward:
    """The pass with one of the stretches in so many parts."""
    return forward_backward(replace(traced, graph=divided(traced.graph, choice, num_parts)), name)
