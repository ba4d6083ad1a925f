"""Stretches of a captured step: ops that can run in parts along one axis, found from one tensor.

Imported only where torch is known to be present.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from placewright.importers.torch.attributes import arguments_of
from placewright.importers.torch.capture import descendants
from placewright.importers.torch.splitting.axes import Rule, Share, rules
from placewright.importers.torch.splitting.dependence import draws_before, linear_in, numbers_of

#: The largest share of a stretch's bytes that is computed as a whole so that the rest can run in parts.
_FEW = 0.05


@dataclass(frozen=True, kw_only=True)
class Stretch:
    """Ops that run in parts.

    extent: the length of the divided axis, of which the lengths of all divided axes are multiples. ops: the rule of
    each, in the order of the graph. shares: the axis along which each node is divided, or what a part makes of it, also
    for nodes that pick a result. gradient: that of the loss, where forward and backward share the stretch, in which it
    is 1. scaled: the nodes that depend on it. numbers: nodes outside of the stretch that depend on it alone.
    """

    extent: int
    ops: Mapping[fx.Node, Rule]
    shares: Mapping[fx.Node, int | Share]
    gradient: fx.Node | None = None
    scaled: frozenset[fx.Node] = frozenset()
    numbers: frozenset[fx.Node] = frozenset()

    def is_read_outside(self, node: fx.Node) -> bool:
        """True if something that does not run in parts reads the node."""
        return any(user not in self.shares and user not in self.ops for user in node.users)


@dataclass(frozen=True, kw_only=True)
class Borders:
    """The border between forward and backward of a step.

    results: of forward. tangents: placeholders that hold gradients of these, which exist once forward is over.
    """

    results: Collection[fx.Node] = ()
    tangents: Collection[fx.Node] = ()


def stretch_from(seed: fx.Node, axis: int, least_bytes: int, borders: Borders) -> Stretch | None:
    """The stretch around a tensor that is divided along an axis; None where there is none.

    It grows along tensors of at least `least_bytes`, and takes in the ops between two of its ops where they can run in
    parts.
    Where the loss alone has a gradient, forward and backward can share a stretch: gradients are linear in it, so they
    are computed for 1 and scaled.
    """
    return _Growth(seed, axis, least_bytes, borders).found()


class _Growth:
    def __init__(self, seed: fx.Node, axis: int, least_bytes: int, borders: Borders) -> None:
        self.graph = seed.graph
        self.extent = int(seed.meta["val"].shape[axis])
        self.least_bytes = least_bytes
        self.seed = seed
        self.axis = axis
        self.results = set(borders.results)
        self.tangents = list(borders.tangents)
        self.late = descendants(borders.tangents, self.graph.nodes)
        self.drawn_before = draws_before(self.graph)
        is_loss = len(borders.tangents) == 1 and all(node.meta["val"].numel() == 1 for node in borders.tangents)
        self.linear = linear_in(self.graph, borders.tangents) if is_loss else set()
        self.chain = numbers_of(self.graph, borders.tangents, self.late, self.linear)
        self.ops: dict[fx.Node, Rule] = {}
        self.shares: dict[fx.Node, int | Share] = {}
        #: The axis along which each tensor from outside is divided.
        self.wanted: dict[fx.Node, int] = {}
        #: The nodes that an op of the stretch reads as a whole.
        self.whole: set[fx.Node] = set()
        self.dropped: set[fx.Node] = set()

    def found(self) -> Stretch | None:
        if not self._start():
            return None
        while True:
            self._grow()
            self._fill()
            gone = self._not_convex()
            if not gone:
                break
            self.dropped |= gone
            self._restart()
            if not self.ops:
                return None
        order = {node: place for place, node in enumerate(self.graph.nodes)}
        return Stretch(
            extent=self.extent,
            ops=dict(sorted(self.ops.items(), key=lambda each: order[each[0]])),
            shares=self.shares,
            **self._scaling(),
        )

    def _scaling(self) -> dict[str, Any]:
        if not self._joins_passes():
            return {}
        (gradient,) = self.tangents
        return {
            "gradient": gradient,
            "scaled": frozenset(self.late & set(self.shares)),
            "numbers": frozenset(self.chain),
        }

    def _start(self) -> bool:
        self.wanted[self.seed] = self.axis
        call = call_of(self.seed)
        return self._add(call) or any(self._add(call_of(user)) for user in self.seed.users)

    def _restart(self) -> None:
        """Begins anew without the dropped ops."""
        self.ops.clear()
        self.shares.clear()
        self.wanted.clear()
        self.whole.clear()
        if not self._start():
            self.ops.clear()

    def _grow(self) -> None:
        """Adds ops that read or make large tensors of the stretch, until there are no more."""
        waiting = [*self.shares, *self.wanted]
        while waiting:
            node = waiting.pop(0)
            if not isinstance(node.meta.get("val"), torch.Tensor) or _num_bytes(node) < self.least_bytes:
                continue
            if node not in self.shares and node not in self.wanted:
                continue
            makers = [call_of(node)] if node in self.wanted and node not in self.shares else []
            for call in (*makers, *map(call_of, node.users)):
                if call in self.ops:
                    continue
                before = {*self.shares, *self.wanted}
                if self._add(call):
                    waiting += [each for each in (*self.shares, *self.wanted) if each not in before]

    def _fill(self) -> None:
        """Adds ops between those of the stretch, first to last and back."""
        changed = True
        while changed:
            changed = False
            between = self._between()
            for node in self.graph.nodes:
                if node in between and node not in self.ops:
                    changed |= self._add(node)

    def _between(self) -> set[fx.Node]:
        after = descendants(set(self.shares), self.graph.nodes)
        before = set(self.shares)
        for node in reversed(self.graph.nodes):
            if node not in before and any(user in before for user in node.users):
                before.add(node)
        return {node for node in after & before if node.op == "call_function" and node.target is not operator.getitem}

    def _add(self, call: fx.Node) -> bool:
        """Adds an op by the first rule that suits the stretch so far; returns true if there is one."""
        if call.op != "call_function" or call in self.ops or call in self.dropped:
            return False
        rule = next((rule for rule in rules(call) if self._suits(call, rule)), None)
        if rule is None:
            return False
        self.ops[call] = rule
        for node, share in results_of(call, rule):
            self.shares[node] = share
            self.wanted.pop(node, None)
        for node, axis in _divided(call, rule):
            if node not in self.shares:
                self.wanted[node] = axis
        self.whole.update(_read_whole(call, rule))
        return True

    def _suits(self, call: fx.Node, rule: Rule) -> bool:
        results = list(results_of(call, rule))
        divided = list(_divided(call, rule))
        known = {**self.wanted, **self.shares}
        if not any(node in known for node, _ in (*results, *divided)):
            return False
        for node, share in results:
            if node in self.whole or (node in self.wanted and self.wanted[node] != share):
                return False
            if not isinstance(share, str) and not self._is_multiple(node.meta["val"].shape[share]):
                return False
            if share == "sum" and not node.meta["val"].dtype.is_floating_point:
                return False
        for node, axis in divided:
            if known.get(node, axis) != axis or node in self.whole:
                return False
            if not self._is_multiple(node.meta["val"].shape[axis]):
                return False
        if any(not self._is_multiple(length) for length in _lengths(call, rule)):
            return False
        if len({axis for _, axis in divided}) > 1 and len({node for node, _ in divided}) < len(divided):
            return False
        owned = {node for node in _tensors(call) if self.shares.get(node) == "own"}
        return all(node in owned or node not in self.shares for node in _read_whole(call, rule))

    def _is_multiple(self, length: Any) -> bool:
        return isinstance(length, int) and length >= self.extent and length % self.extent == 0

    def _not_convex(self) -> set[fx.Node]:
        """Ops that must leave the stretch, because one waits for something outside that itself waits for the stretch.

        If that something is computed from little of the stretch, as a count of targets is, that little leaves and is
        computed before the stretch. Otherwise the op that waits leaves.
        """
        outside, gone = dict[fx.Node, set[fx.Node]](), set[fx.Node]()
        joins = self._joins_passes()
        inside = self.shares.keys() | self.ops.keys()
        for node in self.graph.nodes:
            needed = [*node.all_input_nodes, *filter(None, [self.drawn_before.get(node)])]
            waits = [source for source in needed if source in outside or source in gone]
            if node in inside:
                if waits or (joins and node in self.late and node not in self.linear):
                    gone.add(node)
                    behind = set().union(*(outside.get(source, {source}) for source in waits))
                    if waits and (few := self._ancestors_if_few(behind)):
                        return few
                continue
            sources = {source for source in node.all_input_nodes if source in inside}
            sources = sources.union(*(outside.get(source, ()) for source in waits))
            if waits or sources or (joins and node in self.late and node not in self.chain):
                outside[node] = sources
        # A tensor of one part only cannot be read outside.
        own = (node for node, share in self.shares.items() if share == "own")
        gone |= {node for node in own if any(user not in self.ops for user in node.users)}
        return {call_of(node) for node in gone}

    def _ancestors_if_few(self, nodes: Collection[fx.Node]) -> set[fx.Node]:
        """The ops of the stretch that these are computed from, if they make little of what it makes; none otherwise."""
        found, waiting = set[fx.Node](), [call_of(node) for node in nodes]
        while waiting:
            call = waiting.pop()
            if call in self.ops and call not in found:
                found.add(call)
                waiting += map(call_of, call.all_input_nodes)
        sizes = {node: _num_bytes(node) for node in self.shares if isinstance(node.meta["val"], torch.Tensor)}
        made = sum(size for node, size in sizes.items() if call_of(node) in found)
        return found if found and made <= _FEW * sum(sizes.values()) else set()

    def _joins_passes(self) -> bool:
        """True if the stretch has ops of forward and of backward."""
        if self.late.isdisjoint(self.shares):
            return False
        first = set(self.shares) - self.late
        return not self.results.isdisjoint(descendants(first, self.graph.nodes))


def call_of(node: fx.Node) -> fx.Node:
    """The call that makes a tensor: for a getitem, the call whose results it picks from."""
    return node.args[0] if node.target is operator.getitem else node


def _tensors(call: fx.Node) -> list[fx.Node]:
    return [node for node in call.all_input_nodes if isinstance(node.meta.get("val"), torch.Tensor)]


def results_of(call: fx.Node, rule: Rule) -> Iterator[tuple[fx.Node, int | Share]]:
    """The nodes of an op's results: its own, or those that pick one of several."""
    if isinstance(call.meta["val"], (tuple, list)):
        for pick in call.users:
            if isinstance(pick.meta.get("val"), torch.Tensor):
                yield pick, rule.results[pick.args[1]]
    else:
        yield call, rule.results[0]


def _divided(call: fx.Node, rule: Rule) -> Iterator[tuple[fx.Node, int]]:
    arguments = arguments_of(call)
    for name, axis in rule.axes.items():
        for leaf in pytree.tree_leaves(arguments[name]):
            if isinstance(leaf, fx.Node):
                yield leaf, axis


def _read_whole(call: fx.Node, rule: Rule) -> list[fx.Node]:
    arguments = arguments_of(call)
    return [
        leaf
        for name, value in arguments.items()
        if name not in rule.axes
        for leaf in pytree.tree_leaves(value)
        if isinstance(leaf, fx.Node)
    ]


def _lengths(call: fx.Node, rule: Rule) -> Iterator[Any]:
    """Lengths of the divided axis that the op's arguments give, without -1, which leaves a length open."""
    arguments = arguments_of(call)
    for name, place in rule.extents.items():
        value = arguments[name] if place is None else arguments[name][place]
        if value != -1:
            yield value


def _num_bytes(node: fx.Node) -> int:
    value = node.meta["val"]
    return int(value.numel() * value.element_size())
