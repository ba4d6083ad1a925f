"""Where an ONNX node came from: its layer and its line of source, as PyTorch's exporters write them down."""

from __future__ import annotations

import ast
from typing import Any

from placewright.importers.source_lines import source_of_frames

#: Longer texts are no list of the layers around a call.
_MAX_CHARACTERS = 10_000


def origin_of(node: Any) -> tuple[str, str]:
    """Dotted path of the layer, and "file.py:line"; each empty where the node does not say.

    Today's exporter writes the layers around a call and its stack trace into the node's metadata; the older one puts
    the layers into the node's name, "/encoder/layer.0/attention/MatMul".
    """
    written = {entry.key.rpartition(".")[2]: entry.value for entry in node.metadata_props if _is_text(entry)}
    scopes = _list(written.get("name_scopes", ""))
    parts = [part for part in node.name.split("/") if part] if "/" in node.name else [""]
    module = scopes[-2] if len(scopes) > 1 else ".".join(parts[:-1])
    return module, source_of_frames(written.get("stack_trace", ""))


def _is_text(entry: Any) -> bool:
    """The protobuf package hands out bytes where a text is not UTF-8."""
    return isinstance(entry.key, str) and isinstance(entry.value, str) and entry.key.startswith("pkg.torch.onnx.")


def _list(text: str) -> list[str]:
    """A list of texts from how Python prints it; empty when it is none."""
    try:
        value = ast.literal_eval(text) if len(text) <= _MAX_CHARACTERS else None
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return []
    return value if isinstance(value, list) and all(isinstance(entry, str) for entry in value) else []
