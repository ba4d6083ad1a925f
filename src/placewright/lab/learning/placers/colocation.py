"""Colocation groups: ops that are placed together, by name (Mirhoseini et al. 2017, section 3.3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from placewright.lab.learning.placers.module_calls import Call, module_calls
from placewright.problem import Problem
from placewright.support.errors import InputError, did_you_mean, shown


@dataclass(frozen=True, kw_only=True, eq=False)
class Units:
    """The units that a learner places: groups of ops, numbered by their first ops.

    of_op: [num ops] the unit of each op. allowed: [num units, num devices].
    """

    of_op: NDArray[np.int32]
    allowed: NDArray[np.bool_]

    @property
    def count(self) -> int:
        return len(self.allowed)

    @cached_property
    def first_op(self) -> NDArray[np.int64]:
        return np.unique(self.of_op, return_index=True)[1]

    def placements(self, devices: NDArray[np.integer]) -> NDArray[np.int32]:
        """Convert devices of units, [count, num units], to devices of ops, [count, num ops]."""
        return devices.astype(np.int32)[:, self.of_op]


def units_of(problem: Problem, rules: Sequence[str]) -> Units:
    """Return the groups that these rules make, applied in order; without rules, those that the problem itself keeps
    together.

    Raises InputError for a rule that does not exist.
    """
    check_rules(rules)
    merging = _Merging(problem)
    for rule in rules:
        RULES[rule](problem, merging)
    return merging.units()


def check_rules(rules: Sequence[str]) -> None:
    """Raise InputError naming the first rule that does not exist."""
    for rule in rules:
        if rule not in RULES:
            known = ", ".join(RULES)
            raise InputError(f"there is no colocation rule '{shown(rule)}'{did_you_mean(rule, RULES)} (known: {known})")


class _Merging:
    """Groups while they grow. Two are not merged if no device would be allowed for the result."""

    def __init__(self, problem: Problem) -> None:
        first, allowed = problem.groups
        self.num_devices = problem.machine.num_devices
        self._parent: list[int] = first.tolist()
        self._allowed: list[int] = allowed.tolist()

    def group(self, op: int) -> int:
        """Return the first op of the op's group."""
        parent = self._parent
        while parent[op] != op:
            parent[op] = parent[parent[op]]
            op = parent[op]
        return op

    def merge(self, one: int, other: int) -> bool:
        """Merge the groups of two ops; return True if two groups became one."""
        low, high = sorted((self.group(one), self.group(other)))
        left = self._allowed[low] & self._allowed[high]
        if low == high or not left:
            return False
        self._parent[high] = low
        self._allowed[low] = left
        return True

    def units(self) -> Units:
        groups = np.array([self.group(op) for op in range(len(self._parent))], np.int32)
        first, of_op = np.unique(groups, return_inverse=True)
        masks = np.array([self._allowed[group] for group in first.tolist()], np.uint64)
        bits = masks[:, None] >> np.arange(self.num_devices, dtype=np.uint64)
        return Units(of_op=of_op.astype(np.int32), allowed=(bits & np.uint64(1)).astype(bool))


def _merge_only_consumers(problem: Problem, merging: _Merging) -> None:
    """Merge a group all of whose outputs are read by one other group into that one, repeatedly."""
    followers = _followers(problem)
    merged = True
    while merged:
        merged = False
        members: dict[int, list[int]] = {}
        for op in range(len(followers)):
            members.setdefault(merging.group(op), []).append(op)
        for group in sorted(members, reverse=True):
            own = merging.group(group)
            read_by = {merging.group(next_) for op in members[group] for next_ in followers[op]} - {own}
            if len(read_by) == 1:
                merged |= merging.merge(own, read_by.pop())


def _followers(problem: Problem) -> list[list[int]]:
    """Return per op the ops that read its outputs."""
    lowered = problem.lowered
    followers: list[list[int]] = [[] for _ in lowered.graph_op]
    producers = lowered.producer[lowered.inputs].tolist()
    for producer, reader in zip(producers, lowered.reader.tolist(), strict=True):
        followers[producer].append(reader)
    return followers


def _merge_calls(problem: Problem, merging: _Merging) -> None:
    """Merge all forward ops of one call of a module: a cell at one time step, a branch."""
    first_of: dict[Call, int] = {}
    for op, call in enumerate(module_calls(problem)):
        if call is not None:
            merging.merge(first_of.setdefault(call, op), op)


def _merge_gradients(problem: Problem, merging: _Merging) -> None:
    """Merge a backward op with the forward op whose result it needs, of its own module; one that needs no such result
    joins the backward op of its module that it reads. An optimizer op joins the op that makes its gradient."""
    graph, lowered = problem.graph, problem.lowered
    ops = [graph.ops[index] for index in lowered.graph_op.tolist()]
    producer, begin = lowered.producer, lowered.input_begin
    for op, described in enumerate(ops):
        if described.phase not in ("backward", "optimizer"):
            continue
        read = producer[lowered.inputs[begin[op] : begin[op + 1]]].tolist()
        kin = [p for p in read if ops[p].module == described.module and described.module]
        phases = ("forward", "backward") if described.phase == "backward" else ("backward",)
        candidates = [p for phase in phases for p in kin if ops[p].phase == phase]
        if not candidates and described.phase == "optimizer":
            candidates = [p for p in read if ops[p].phase == "backward"]
        if candidates:
            merging.merge(op, candidates[0])


def _merge_branches(problem: Problem, merging: _Merging) -> None:
    """Merge, in the forward pass, a group whose results only one other group reads with that one, if it reads no
    other's: a chain of layers, such as a branch of a convolutional network. Variables and inputs that they read do not
    count."""
    graph, lowered = problem.graph, problem.lowered
    counts = [graph.ops[i].phase in ("", "forward") and graph.ops[i].kind != "input" for i in lowered.graph_op.tolist()]
    followers: dict[int, set[int]] = {}
    leaders: dict[int, set[int]] = {}
    for op, read_by in enumerate(_followers(problem)):
        for reader in read_by:
            pair = merging.group(op), merging.group(reader)
            if counts[op] and counts[reader] and pair[0] != pair[1]:
                followers.setdefault(pair[0], set()).add(pair[1])
                leaders.setdefault(pair[1], set()).add(pair[0])
    for group, after in followers.items():
        if len(after) == 1 and len(leaders[next(iter(after))]) == 1:
            merging.merge(group, next(iter(after)))


#: By name. Their order counts: each rule works on the groups that the rules before it left.
RULES: Mapping[str, Callable[[Problem, _Merging], None]] = {
    "module": _merge_calls,
    "branches": _merge_branches,
    "gradients": _merge_gradients,
    "only-consumer": _merge_only_consumers,
}
#: ColocRL's rules in the order that leaves as many groups as the paper reports: see docs/lab/placers.md.
COLOCRL_RULES = ("module", "branches", "gradients", "only-consumer")
