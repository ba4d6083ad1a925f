"""Graphs of modules as they run op by op, without an optimizer; the scripts beside it import this."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from placewright.graph import Graph
from placewright.importers.torch.capture import capture
from placewright.importers.torch.front import trace_joint
from placewright.importers.torch.graph import translate
from placewright.importers.torch.joint import SourceRole


def captured_step(model: Any, args: Sequence[Any], *, training: bool) -> Graph:
    """One inference, or forward and backward, whose gradients are kept to the end.

    What the module is called with is there from begin to end, as where the caller holds it.
    Raises InputError where PyTorch cannot trace the module.
    """
    captured = capture(trace_joint(model, args, {}, training=training, loss=None))
    roles: dict[SourceRole, SourceRole] = {"input": "parameter"}
    sources = {node: (label, roles.get(role, role)) for node, (label, role) in captured.sources.items()}
    held = replace(captured, sources=sources)
    graph, _ = translate(held, type(model).__name__, None, copies=False, sums_in_place=True)
    return graph
