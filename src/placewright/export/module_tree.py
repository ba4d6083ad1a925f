"""Entries of a device map: the modules that stay whole, in groups that share a device."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from placewright.export.module_ties import ModuleTies

#: Time by device.
Spent = Mapping[int, int]


@dataclass
class _Node:
    """A module, or a parameter by its name. own: the device of its own ops, None without any. spent: time of the ops in
    it and below it, by device."""

    path: str
    own: int | None = None
    children: dict[str, _Node] = field(default_factory=dict)
    spent: defaultdict[int, int] = field(default_factory=lambda: defaultdict(int))


class ModuleTree:
    """The modules of a network as a plan places them.

    entries: paths of modules and parameters with the time in them by device. No entry is an ancestor of another, and
    each parameter is an entry or below one.
    """

    def __init__(self, spent: Mapping[str, Spent], ties: ModuleTies) -> None:
        """Build the tree. spent: time of each module's own ops, by device."""
        self._root = _Node("")
        self._ties = ties
        for path, times in spent.items():
            self._add(path, times)
        for name in ties.names:
            self._add(name, {})
        self._linked = {above for group in ties.shared for name in group for above in up(name)}
        self.entries: dict[str, Spent] = dict(self._divided(self._root))

    def groups(self) -> list[list[str]]:
        """Group the entries that share a device because of what the code above them computes."""
        return _joined([[path] for path in self.entries], map(self._entries_of, self._ties.together))

    def shared(self, groups: list[list[str]]) -> list[list[str]]:
        """Join the groups that share a parameter or a layer. A layer without parameters has a hook only where it is an
        entry."""
        same = (paths for paths in self._ties.same if any(path in self.entries for path in paths))
        return _joined(groups, map(self._entries_of, (*self._ties.shared, *same)))

    def merged(self, devices: Mapping[str, int]) -> dict[str, int]:
        """Map entries to devices, with one entry for a module if everything in it was, and is, on one device."""
        return dict(_merged(self._root, devices))

    def _add(self, path: str, times: Spent) -> None:
        nodes = [self._root]
        for below in reversed(list(up(path))):
            nodes.append(nodes[-1].children.setdefault(below.rpartition(".")[2], _Node(below)))
        if times:
            nodes[-1].own = most(times)
        for node in nodes:
            for device, time_ns in times.items():
                node.spent[device] += time_ns

    def _divided(self, node: _Node) -> Iterator[tuple[str, Spent]]:
        """Yield the entries below a module: a child that may not or need not be taken apart is one entry."""
        for child in node.children.values():
            wanted = _own_devices(child)
            # A child that shares no parameter with the rest stays together anyway; one that does may have to move.
            settled = len(wanted) <= 1 and (child.path not in self._linked or self._is_undivided(child))
            if settled or not child.children or child.path in self._ties.whole:
                one = dict.fromkeys(wanted, sum(child.spent.values())) if len(wanted) == 1 else child.spent
                yield child.path, one
            else:
                yield from self._divided(child)

    def _is_undivided(self, node: _Node) -> bool:
        """True if no op below the node runs; for a node without any time, if it holds a parameter itself."""
        if not node.spent:
            return any(child.path in self._ties.names for child in node.children.values())
        return not any(child.spent for child in node.children.values())

    def _entries_of(self, paths: Iterable[str]) -> set[str]:
        return {found for path in paths if (found := entry_of(self.entries, path)) is not None}


def entry_of(entries: Collection[str], path: str) -> str | None:
    """Find the entry that is or contains a module or parameter; None for a module that is taken apart."""
    return next((above for above in up(path) if above in entries), "" if "" in entries else None)


def most(times: Spent) -> int:
    """Return the device with the most time."""
    return max(times, key=lambda device: (times[device], -device))


def up(path: str) -> Iterator[str]:
    """Yield a path and its ancestors, without that of the network."""
    while path:
        yield path
        path = path.rpartition(".")[0]


def _own_devices(node: _Node) -> set[int]:
    found = set() if node.own is None else {node.own}
    return found.union(*(_own_devices(child) for child in node.children.values()))


def _merged(node: _Node, devices: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    for child in node.children.values():
        if child.path in devices:
            yield child.path, devices[child.path]
            continue
        below = dict(_merged(child, devices))
        if len(set(below.values())) == 1 and len(_own_devices(child)) <= 1:
            yield child.path, next(iter(below.values()))
        else:
            yield from below.items()


def _joined(groups: Iterable[list[str]], links: Iterable[Collection[str]]) -> list[list[str]]:
    """Join groups that have members in a common link."""
    group_of = {path: group for group in groups for path in group}
    for link in links:
        found = list({id(group): group for group in (group_of[path] for path in link)}.values())
        joined = [path for group in found for path in group]
        group_of.update(dict.fromkeys(joined, joined))
    return list({id(group): group for group in group_of.values()}.values())
