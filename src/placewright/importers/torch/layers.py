"""The layers in which calls are made, as Dynamo records them, by their paths below the module.

Imported only where torch is known to be present.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn


def name_layers(program: torch.fx.GraphModule, model: nn.Module) -> None:
    """Gives every call of Dynamo's graph the path and class of each module of `model` in whose forward it is made.

    For a module with several paths this is the first one below the calling module, or else the first.
    """
    paths: dict[str, list[str]] = {}
    classes: dict[str, type] = {}
    for path, module in model.named_modules(remove_duplicate=False):
        paths.setdefault(str(id(module)), []).append(path)
        classes[str(id(module))] = type(module)
    known: dict[tuple[str, ...], dict[str, tuple[str, type]]] = {}
    for graph in (each.graph for each in program.modules() if isinstance(each, torch.fx.GraphModule)):
        for node in graph.nodes:
            entered = tuple(key.split("@")[0] for key in node.meta.get("nn_module_stack", ()))
            if entered not in known:
                known[entered] = _stack(entered, paths, classes)
            node.meta["nn_module_stack"] = known[entered]


def _stack(
    entered: tuple[str, ...], paths: Mapping[str, list[str]], classes: Mapping[str, type]
) -> dict[str, tuple[str, Any]]:
    stack: dict[str, tuple[str, Any]] = {}
    above = ""
    for key in entered:
        if key in paths:
            above = next((path for path in paths[key] if path.startswith(above)), paths[key][0])
            stack[str(len(stack))] = above, classes[key]
            above = f"{above}." if above else ""
    return stack
