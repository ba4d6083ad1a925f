"""Where a traced call came from: its layer and its line of source."""

from __future__ import annotations

from typing import Any

from placewright.graph import Phase
from placewright.importers.source_lines import innermost_frame

_PHASES: dict[str, Phase] = {"is_forward": "forward", "is_backward": "backward"}


def phase_of(node: Any) -> Phase:
    """Forward or backward in a training step; empty in an inference."""
    return _PHASES.get(node.meta.get("partitioner_tag", ""), "")


def module_of(node: Any) -> str:
    """Dotted path of the innermost layer inside the model; for a gradient, that of the call it is the gradient of."""
    stack = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack") or {}
    paths = [path for path, _ in stack.values() if path]
    return paths[-1].split("@")[0] if paths else ""


def source_of(node: Any) -> str:
    """ "file.py:line" of the model's code that made the call, without the directory the package is installed in."""
    return innermost_frame(node.meta.get("stack_trace") or "")
