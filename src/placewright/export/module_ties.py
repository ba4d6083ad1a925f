"""Which modules of a network accelerate's hooks can take apart.

A hook moves what a module is called with to the module's device. What a module that is taken apart computes in its own
code runs where its operands are, so they must be on one device; and nothing places parameters that it holds itself.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from placewright.graph import Graph

#: What a module's own code computes: its op by index; or has from elsewhere: from a module below it, by the path of
#: that and the op that makes it there, or from outside, whose path is None.
_Key = int | tuple[str | None, int]
#: The op of a parameter, which is made by none.
_NONE = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleTies:
    """whole: modules that stay on one device. together: groups of modules whose results the code above them combines,
    so that they share a device. with_inputs: modules whose results the network's own code combines with its inputs or
    its own parameters."""

    whole: frozenset[str]
    together: tuple[frozenset[str], ...]
    with_inputs: frozenset[str]


def module_ties(graph: Graph) -> ModuleTies:
    """What the forward ops of a graph and the names of its parameters tell."""
    whole = {path for path in _holding_parameters(graph) if path}
    together: list[frozenset[str]] = []
    with_inputs: set[str] = set()
    for module, combined in _combined(graph).items():
        for group in combined.groups():
            sources = [key for key in group if isinstance(key, tuple)]
            if len(sources) < 2:
                continue
            paths = frozenset(path for path, _ in sources if path is not None)
            whole |= paths
            together.append(paths)
            if any(path is None for path, _ in sources):
                if module == "":
                    with_inputs |= paths
                else:
                    whole.add(module)
    return ModuleTies(whole=frozenset(whole), together=tuple(together), with_inputs=frozenset(with_inputs))


class _Combined:
    """What the own code of one module computes with each other."""

    def __init__(self) -> None:
        self._parent: dict[_Key, _Key] = {}

    def root(self, key: _Key) -> _Key:
        self._parent.setdefault(key, key)
        while self._parent[key] != key:
            self._parent[key] = key = self._parent[self._parent[key]]
        return key

    def join(self, first: _Key, second: _Key) -> None:
        self._parent[self.root(first)] = self.root(second)

    def groups(self) -> list[set[_Key]]:
        found: defaultdict[_Key, set[_Key]] = defaultdict(set)
        for key in list(self._parent):
            found[self.root(key)].add(key)
        return list(found.values())


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
                holder = graph.tensors[tensor].name.rpartition(".")[0]
                found[op.module].join(index, (holder if _is_below(holder, op.module) else None, _NONE))
    return dict(found)


def _operand(graph: Graph, module: str, producer: int) -> _Key:
    """Where a module's own op has an operand from: a module below it, its own op, or elsewhere."""
    op = graph.ops[producer]
    if op.kind != "input" and op.module == module:
        return producer
    return op.module if op.kind != "input" and _is_below(op.module, module) else None, producer


def _is_below(path: str, module: str) -> bool:
    return path != module and (not module or path.startswith(f"{module}."))


def _holding_parameters(graph: Graph) -> set[str]:
    """Modules that hold parameters or buffers themselves, by the names of these."""
    return {tensor.name.rpartition(".")[0] for tensor in graph.tensors if tensor.role == "parameter"}
