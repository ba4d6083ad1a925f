"""Graphs of modules as they run op by op, without an optimizer; other scripts of this folder import this."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from placewright.graph import Graph
from placewright.importers.torch.capture import capture
from placewright.importers.torch.front import trace_joint
from placewright.importers.torch.graph import translate
from placewright.importers.torch.joint import Joint, SourceRole
from placewright.importers.torch.splitting.choices import choices, divided


def captured_step(model: Any, args: Sequence[Any], *, training: bool) -> Graph:
    """One inference, or forward and backward, whose gradients are kept to the end.

    The module's arguments stay in memory from begin to end, as if the caller held them.
    Raises InputError where PyTorch cannot trace the module.
    """
    return _step(trace_joint(model, args, {}, training=training, loss=None), type(model).__name__)


def steps_in_parts(model: Any, args: Sequence[Any]) -> Iterator[tuple[str, int, Graph]]:
    """The training step with a stretch of ops in parts: the stretch, the number of parts, and the graph."""
    traced = trace_joint(model, args, {}, training=True, loss=None)
    for choice in choices(traced.graph, traced.inputs()):
        for count in choice.counts:
            parted = replace(traced, graph=divided(traced.graph, choice, count))
            yield choice.name, count, _step(parted, type(model).__name__)


def _step(traced: Joint, name: str) -> Graph:
    captured = capture(traced)
    roles: dict[SourceRole, SourceRole] = {"input": "parameter"}
    sources = {node: (label, roles.get(role, role)) for node, (label, role) in captured.sources.items()}
    held = replace(captured, sources=sources)
    graph, _ = translate(held, name, None, copies=False, sums_in_place=True)
    return graph
