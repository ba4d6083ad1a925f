"""Constraints of the user on a placement: pins, colocations and forbidden devices, matched by op or module name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import translate
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from placewright.graph import HOST_TARGET, Graph, Op
from placewright.machine import Machine
from placewright.problem.lowering import Lowered
from placewright.support.errors import InputError, shown

_GLOB = re.compile(r"[*?\[]")


@dataclass(frozen=True, kw_only=True)
class Constraints:
    """Constraints, whose patterns are shell-style globs over op names and module paths.

    pins: (pattern, device name or index): every match runs there. forbids: pairs like pins, but no match runs there; a
    pattern may occur with several devices. colocations: groups of patterns; all matches of one group share a device.
    """

    pins: tuple[tuple[str, str], ...] = ()
    forbids: tuple[tuple[str, str], ...] = ()
    colocations: tuple[tuple[str, ...], ...] = ()

    def record(self) -> dict[str, Any]:
        """Return the constraints as JSON values for a plan's configuration."""
        return {
            "pins": dict(self.pins),
            "forbids": _by_pattern(self.forbids),
            "colocate": [list(patterns) for patterns in self.colocations],
        }


def _by_pattern(rules: Sequence[tuple[str, str]]) -> dict[str, str | list[str]]:
    """Map each pattern to its device, or to a list if there are several."""
    devices: dict[str, list[str]] = {}
    for pattern, device in rules:
        devices.setdefault(pattern, []).append(device)
    return {pattern: found[0] if len(found) == 1 else found for pattern, found in devices.items()}


def recorded_constraints(configuration: Mapping[str, Any]) -> Constraints:
    """Read the constraints that a plan's configuration records; entries of another form than that of
    `Constraints.record` are ignored."""

    def rules(name: str) -> tuple[tuple[str, str], ...]:
        recorded = configuration.get(name)
        if not isinstance(recorded, Mapping):
            return ()
        return tuple(
            (p, str(d)) for p, found in recorded.items() for d in (found if isinstance(found, list) else [found])
        )

    groups: Any = configuration.get("colocate")
    return Constraints(
        pins=rules("pins"),
        forbids=rules("forbids"),
        colocations=tuple(tuple(patterns) for patterns in groups) if are_groups(groups) else (),
    )


def are_groups(groups: object) -> bool:
    """True if the value is a list of lists of patterns."""
    return isinstance(groups, list | tuple) and all(
        isinstance(group, list | tuple) and all(isinstance(pattern, str) for pattern in group) for group in groups
    )


class OpNames:
    """An index of ops for shell-style patterns over their names and module paths. A plain name is looked up, so that a
    group for every op of a large graph costs no more than reading them; other patterns are matched with every name
    once."""

    def __init__(self, ops: Iterable[Op]) -> None:
        self._ops = ops

    @cached_property
    def _found(self) -> dict[str, list[int]]:
        """The positions of the ops by each name and module path; read when a first pattern is looked up."""
        found: dict[str, list[int]] = {}
        for index, op in enumerate(self._ops):
            for name in {op.name, op.module}:
                found.setdefault(name, []).append(index)
        return found

    def matching(self, pattern: str) -> list[int]:
        """List the positions of the ops whose name or module matches, ascending."""
        if not _GLOB.search(pattern):
            return self._found.get(pattern, [])
        matches = re.compile(translate(pattern)).match
        return sorted({index for name, found in self._found.items() if matches(name) for index in found})


def placement_groups(
    graph: Graph, lowered: Lowered, machine: Machine, constraints: Constraints
) -> tuple[NDArray[np.int32], NDArray[np.uint64]]:
    """Return per scheduled op the first op of its group (ops that share a device), and the bit mask of devices that its
    group may use. Raises InputError when a pattern matches nothing, a device is unknown, or no device is left."""
    names = OpNames(graph.ops[index] for index in lowered.graph_op)
    parent = list(range(len(lowered.graph_op)))
    for first, second in lowered.together:
        _union(parent, first, second)
    for patterns in constraints.colocations:
        matched = [op for pattern in patterns for op in _matches(graph, names, pattern, "colocate")]
        for op in matched[1:]:
            _union(parent, matched[0], op)
    group = [_root(parent, op) for op in range(len(parent))]
    allowed = _allowed_devices(graph, lowered, names, machine, constraints, group)
    return np.array(group, np.int32), np.array([allowed[g] for g in group], np.uint64)


def _allowed_devices(
    graph: Graph,
    lowered: Lowered,
    names: OpNames,
    machine: Machine,
    constraints: Constraints,
    group: Sequence[int],
) -> dict[int, int]:
    everywhere = 2**machine.num_devices - 1
    allowed = dict.fromkeys(group, everywhere)
    if (hosts := sum(1 << index for index, device in enumerate(machine.devices) if device.is_host)) > 0:
        for op, graph_op in enumerate(lowered.graph_op.tolist()):
            allowed[group[op]] &= hosts if graph.ops[graph_op].target == HOST_TARGET else everywhere & ~hosts
    rules = [(p, 1 << _device_index(machine, d), "pin") for p, d in constraints.pins]
    rules += [(p, everywhere & ~(1 << _device_index(machine, d)), "forbid") for p, d in constraints.forbids]
    for pattern, mask, what in rules:
        for op in _matches(graph, names, pattern, what):
            allowed[group[op]] &= mask
            if not allowed[group[op]]:
                name = graph.ops[lowered.graph_op[op]].name
                raise InputError(
                    f"the constraints leave no device for op '{shown(name)}': {what} '{shown(pattern)}' contradicts "
                    "another constraint on it or on an op that must share its device"
                )
    return allowed


def _device_index(machine: Machine, text: str) -> int:
    names = [device.name for device in machine.devices]
    if text in names:
        return names.index(text)
    if text in map(str, range(machine.num_devices)):
        return int(text)
    raise InputError(f"machine '{shown(machine.name)}' has no device '{shown(text)}'; it has {', '.join(names)}")


def _matches(graph: Graph, names: OpNames, pattern: str, what: str) -> list[int]:
    matched = names.matching(pattern)
    if not matched:
        raise InputError(f"{what} '{shown(pattern)}' matches no op or module of graph '{shown(graph.name)}'")
    return matched


def _root(parent: list[int], op: int) -> int:
    while parent[op] != op:
        parent[op] = parent[parent[op]]
        op = parent[op]
    return op


def _union(parent: list[int], first: int, second: int) -> None:
    """Join two groups under the smaller root, so that a group is named by its first op."""
    low, high = sorted((_root(parent, first), _root(parent, second)))
    parent[high] = low
