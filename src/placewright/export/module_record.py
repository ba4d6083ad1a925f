"""What a graph's metadata tell of the module that it was captured from, beside its ops and tensors."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from placewright.graph import Graph
from placewright.support.errors import InputError, shown
from placewright.support.quantities import QUANTITY_LIMIT


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleRecord:
    """other_names: other name of a parameter or buffer -> the one it has in the graph. other_paths: the same of layers
    that are one object. unread: bytes of parameters and buffers that no op reads. lists: what is no layer and is never
    called, such as a list of layers."""

    other_names: Mapping[str, str] = field(default_factory=dict)
    other_paths: Mapping[str, str] = field(default_factory=dict)
    unread: Mapping[str, int] = field(default_factory=dict)
    lists: Sequence[str] = ()


def has_record(graph: Graph) -> bool:
    """Whether the graph tells what there is beside it."""
    return "module" in graph.metadata


def module_record(graph: Graph) -> ModuleRecord:
    """The record of a graph; an empty one where it has none. Raises InputError where that is no record."""
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
    """All names of each thing that has several."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for name, first in first_of.items():
        found[first] |= {name, first}
    yield from map(frozenset, found.values())


def _no_record(graph: Graph, key: str) -> InputError:
    return InputError(f"graph '{shown(graph.name)}': '{key}' in its metadata is not what docs/formats.md says of it")
