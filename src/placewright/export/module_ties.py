"""The ties between modules that limit how accelerate's hooks can take a network apart.

A hook moves a module's arguments to the module's device. The own code of a module that is taken apart runs where its
operands are, so they must be on one device; and nothing places parameters that it holds itself. A parameter is on one
device under all its names, and a layer has one hook under all its paths.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from placewright.graph import Graph, Op
from placewright.support.errors import InputError, shown
from placewright.support.quantities import QUANTITY_LIMIT


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleRecord:
    """The record of a module in its graph's metadata.

    other_names: other name of a parameter or buffer -> the name it has in the graph. other_paths: the same for layers
    that are one object. unread: bytes of parameters and buffers that no op reads. lists: containers that are never
    called, such as a list of layers.
    """

    other_names: Mapping[str, str] = field(default_factory=dict)
    other_paths: Mapping[str, str] = field(default_factory=dict)
    unread: Mapping[str, int] = field(default_factory=dict)
    lists: Sequence[str] = ()


def has_record(graph: Graph) -> bool:
    """True if the graph has a record of its module."""
    return "module" in graph.metadata


def module_record(graph: Graph) -> ModuleRecord:
    """Read the module record of a graph; empty if it has none. Raises InputError if the metadata are malformed."""
    found = graph.metadata.get("module", {})
    if not isinstance(found, Mapping):
        raise _no_record(graph, "module")
    for key in ("other_names", "other_paths"):
        names = found.get(key, {})
        if not isinstance(names, Mapping) or not all(isinstance(name, str) for name in names.values()):
            raise _no_record(graph, key)
    unread = found.get("unread", {})
    if not isinstance(unread, Mapping) or not all(
        type(size) is int and 0 <= size < QUANTITY_LIMIT for size in unread.values()
    ):
        raise _no_record(graph, "unread")
    lists = found.get("lists", [])
    if not isinstance(lists, list | tuple) or not all(isinstance(path, str) for path in lists):
        raise _no_record(graph, "lists")
    return ModuleRecord(
        other_names=found.get("other_names", {}),
        other_paths=found.get("other_paths", {}),
        unread=unread,
        lists=lists,
    )


def by_first(first_of: Mapping[str, str]) -> Iterator[frozenset[str]]:
    """Yield all names of each object that has several."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for name, first in first_of.items():
        found[first] |= {name, first}
    yield from map(frozenset, found.values())


def _no_record(graph: Graph, key: str) -> InputError:
    return InputError(f"graph '{shown(graph.name)}': '{key}' in its metadata is not what docs/formats.md says of it")


#: A node in the code of one module: an own op, by index; or a value from elsewhere: from a module below it, as the path
#: of that module and the op that makes the value, or from outside, with None as the path.
_Key = int | tuple[str | None, int]
#: The op of a parameter, which no op makes.
_NONE = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleTies:
    """The modules and parameters that must share a device.

    whole: modules that stay on one device. together: groups of modules whose results the code above them combines, so
    that they share a device. shared: groups that share one because of a parameter: its names, and modules that read it
    where another module holds it. same: groups of paths of one layer. with_inputs: parameters of the network itself,
    and modules whose results its own code combines with these or with its inputs. names: of all parameters and buffers.
    unread: bytes of those that no op reads.
    """

    whole: frozenset[str]
    together: tuple[frozenset[str], ...]
    shared: tuple[frozenset[str], ...]
    same: tuple[frozenset[str], ...]
    with_inputs: frozenset[str]
    names: frozenset[str]
    unread: Mapping[str, int]


def module_ties(graph: Graph) -> ModuleTies:
    """Find the ties from the forward ops of a graph, the names of its parameters and its module record.

    Raises InputError when the record is malformed.
    """
    record = module_record(graph)
    names = {*_parameters(graph), *record.unread, *record.other_names, *record.other_names.values()}
    read_elsewhere = list(_read_elsewhere(graph, record))
    whole = _holders(names, record) | {module for _, module in read_elsewhere}
    together: list[frozenset[str]] = []
    with_inputs = {name for name in names if "." not in name}
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
    return ModuleTies(
        whole=frozenset(whole),
        together=tuple(together),
        shared=(*by_first(record.other_names), *map(frozenset, read_elsewhere)),
        same=tuple(by_first(record.other_paths)),
        with_inputs=frozenset(with_inputs),
        names=frozenset(names),
        unread=record.unread,
    )


class _Combined:
    """Groups of values that the own code of one module combines, as a disjoint-set forest."""

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
    """Group the values that the own code of each module combines, in forward ops only: values combined only in a
    backward pass move with their forward ops."""
    found: defaultdict[str, _Combined] = defaultdict(_Combined)
    for index, op in enumerate(graph.ops):
        if not is_forward(op):
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
    """Find the origin of an operand of a module's own op: a module below it, its own op, or elsewhere."""
    op = graph.ops[producer]
    if op.kind != "input" and op.module == module:
        return producer
    return op.module if op.kind != "input" and _is_below(op.module, module) else None, producer


def _is_below(path: str, module: str) -> bool:
    return path != module and (not module or path.startswith(f"{module}."))


def _parameters(graph: Graph) -> Iterator[str]:
    """Yield the names of parameters and buffers. Tensors that only the optimizer reads are its state."""
    for tensor, readers in zip(graph.tensors, graph.consumers_of, strict=True):
        if tensor.role == "parameter" and not (readers and all(graph.ops[op].phase == "optimizer" for op in readers)):
            yield tensor.name


def _holders(names: Collection[str], record: ModuleRecord) -> set[str]:
    """Find the modules that hold a parameter or buffer which an op reads, under any of its names."""
    holders = {name.rpartition(".")[0] for name in names if record.other_names.get(name, name) not in record.unread}
    return holders - {""}


def _read_elsewhere(graph: Graph, record: ModuleRecord) -> Iterator[tuple[str, str]]:
    """Yield parameters, each with a module that reads it although a module that is neither above nor below it holds it.
    The reader holds it out of sight of its parent, or is called with it. If only modules above the reader hold a
    parameter, it is called with that parameter, and hooks move it."""
    names = {name: group for group in by_first(record.other_names) for name in group}
    for tensor, readers in zip(graph.tensors, graph.consumers_of, strict=True):
        if tensor.role == "parameter":
            holders = {name.rpartition(".")[0] for name in names.get(tensor.name, {tensor.name})}
            for module in {graph.ops[op].module for op in readers if is_forward(graph.ops[op])} - holders:
                is_beside = not any(_is_below(holder, module) for holder in holders)
                if is_beside and not all(_is_below(module, holder) for holder in holders):
                    yield tensor.name, module


def is_forward(op: Op) -> bool:
    """True if an op is part of what a module computes when it is called."""
    return op.kind != "input" and op.phase in ("", "forward")
