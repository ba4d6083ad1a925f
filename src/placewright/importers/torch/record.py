"""Facts about a module that its captured graph does not show: other names, and tensors that no op reads.

Imported only where torch is known to be present.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from torch import nn

from placewright.graph import Graph


def with_record(graph: Graph, model: Any) -> Graph:
    """The graph with that record in its metadata (docs/formats.md). model: a module, or a program exported from one."""
    module = model if isinstance(model, nn.Module) else model.module()
    named = [*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False)]
    read = {tensor.name for tensor in graph.tensors if tensor.role == "parameter"}
    other_names = _other_names(named)
    record = {
        "other_names": other_names,
        "other_paths": _other_names(module.named_modules(remove_duplicate=False)),
        "unread": {
            name: tensor.numel() * tensor.element_size()
            for name, tensor in named
            if name not in read and name not in other_names
        },
        "lists": [path for path, layer in module.named_modules(remove_duplicate=False) if _is_list(layer)],
    }
    return replace(graph, metadata={**graph.metadata, "module": record})


def _is_list(module: nn.Module) -> bool:
    """True for a container that cannot be called. Layers of exported programs cannot be called either, but are none."""
    return type(module).forward is nn.Module.forward and type(module) is not nn.Module


def _other_names(named: Iterable[tuple[str, Any]]) -> dict[str, str]:
    """Every name of an object but the first, with its first name."""
    first: dict[int, str] = {}
    found = {name: first.setdefault(id(thing), name) for name, thing in named}
    return {name: before for name, before in found.items() if name != before}
