"""Which modules of a network accelerate's hooks can take apart.

A hook moves what a module is called with to the module's device. What a module that is taken apart computes in its own
code runs where its operands are, so they must be on one device; and nothing places parameters that it holds itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from placewright.graph import Graph

#: What a module's own code gets from outside of it.
_OUTSIDE = -1

_Key = str | int


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleTies:
    """whole: modules that stay on one device. together: module -> groups of its children that must share a device.
    with_inputs: children of the network whose results its own code combines with its inputs or its own parameters."""

    whole: frozenset[str]
    together: Mapping[str, tuple[frozenset[str], ...]]
    with_inputs: frozenset[str]


def module_ties(graph: Graph) -> ModuleTies:
    """What the forward ops of a graph and the names of its parameters tell."""
    classes = _combined(graph)
    whole = {path for path in _holding_parameters(graph) if path}
    together: dict[str, tuple[frozenset[str], ...]] = {}
    with_inputs: frozenset[str] = frozenset()
    for module, combined in classes.items():
        groups = combined.groups()
        outside = groups.pop(combined.root(_OUTSIDE), frozenset())
        if module == "":
            with_inputs = outside
        elif outside:
            whole.add(module)
        if several := tuple(group for group in groups.values() if len(group) > 1):
            together[module] = several
    return ModuleTies(whole=frozenset(whole), together=together, with_inputs=with_inputs)


class _Combined:
    """What the own code of one module computes with each other: children by path, its ops by index, _OUTSIDE."""

    def __init__(self) -> None:
        self._parent: dict[_Key, _Key] = {}

    def root(self, key: _Key) -> _Key:
        self._parent.setdefault(key, key)
        while self._parent[key] != key:
            self._parent[key] = key = self._parent[self._parent[key]]
        return key

    def join(self, first: _Key, second: _Key) -> None:
        self._parent[self.root(first)] = self.root(second)

    def groups(self) -> dict[_Key, frozenset[str]]:
        """Children by the root of their group."""
        found: defaultdict[_Key, set[str]] = defaultdict(set)
        for key in list(self._parent):
            if isinstance(key, str):
                found[self.root(key)].add(key)
        return {root: frozenset(children) for root, children in found.items()}


def _combined(graph: Graph) -> dict[str, _Combined]:
    """Per module with ops of its own; what only a backward pass combines moves with its forward."""
    found: defaultdict[str, _Combined] = defaultdict(_Combined)
    for index, op in enumerate(graph.ops):
        if op.kind == "input" or op.phase not in ("", "forward"):
            continue
        for tensor in op.inputs:
            producer = graph.producer_of[tensor]
            if producer >= 0:
                found[op.module].join(index, _operand(graph, op.module, producer))
            elif graph.tensors[tensor].role == "parameter":
                found[op.module].join(index, _holder(op.module, graph.tensors[tensor].name))
    return dict(found)


def _operand(graph: Graph, module: str, producer: int) -> _Key:
    """Where a module's own op has an operand from: one of its children, its own op, or elsewhere."""
    op = graph.ops[producer]
    if op.kind == "input":
        return _OUTSIDE
    if op.module == module:
        return producer
    return _child(module, op.module)


def _holder(module: str, parameter: str) -> _Key:
    """Where a module's own op finds a parameter: its own stay where its inputs go."""
    return _child(module, parameter.rpartition(".")[0])


def _child(module: str, path: str) -> _Key:
    below = f"{module}." if module else ""
    if path == module or not path.startswith(below):
        return _OUTSIDE
    return below + path[len(below) :].partition(".")[0]


def _holding_parameters(graph: Graph) -> set[str]:
    """Modules that hold parameters or buffers themselves, by the names of these."""
    return {tensor.name.rpartition(".")[0] for tensor in graph.tensors if tensor.role == "parameter"}
