"""A captured step in which a stretch runs in parts.

Imported only where torch is known to be present.
"""

from __future__ import annotations

import heapq
import itertools
import operator
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from placewright.importers.torch.attributes import arguments_of
from placewright.importers.torch.marks import IN_PLACE, PART
from placewright.importers.torch.splitting.axes import Rule
from placewright.importers.torch.splitting.dependence import draws_before
from placewright.importers.torch.splitting.stretch import Stretch, results_of

_ATEN = torch.ops.aten
#: Products with the kernels that add them to a tensor.
_PRODUCTS = {_ATEN.mm.default: _ATEN.addmm.default, _ATEN.bmm.default: _ATEN.baddbmm.default}


def in_parts(graph: fx.Graph, stretch: Stretch, num_parts: int) -> fx.Graph:
    """The same step, with the ops of a stretch once for each part, part after part.

    Results that are divided are joined, and terms of sums are added part by part. Nodes outside keep their names and
    their order as far as they can.
    """
    return _Rewriting(graph, stretch, num_parts).done()


@dataclass(frozen=True, kw_only=True)
class _Part:
    number: int
    begin: int
    end: int


class _Rewriting:
    def __init__(self, graph: fx.Graph, stretch: Stretch, num_parts: int) -> None:
        self.old = graph
        self.stretch = stretch
        self.new = fx.Graph(owning_module=graph.owning_module)
        self.made: dict[fx.Node, fx.Node] = {}
        #: Numbers computed from the gradient of the loss, for a gradient of 1.
        self.unit: dict[fx.Node, fx.Node] = {}
        #: Results that are still to be scaled.
        self.joined: dict[fx.Node, fx.Node] = {}
        #: Results that something outside reads.
        self.outward = [
            (node, share)
            for call, rule in stretch.ops.items()
            for node, share in results_of(call, rule)
            if share != "own" and stretch.is_read_outside(node)
        ]
        steps = [stretch.extent * number // num_parts for number in range(num_parts + 1)]
        self.parts = [
            _Part(number=number, begin=begin, end=end) for number, (begin, end) in enumerate(itertools.pairwise(steps))
        ]

    def done(self) -> fx.Graph:
        for node in self._in_order():
            if node is None:
                self._run_parts()
            elif node in self.joined:
                self.made[node] = self._scaled(node)
            else:
                self.made[node] = self.new.node_copy(node, self.made.__getitem__)
        return self.new

    def _in_order(self) -> Iterator[fx.Node | None]:
        """The nodes outside of the stretch in their order, and None where it runs, as early as its first op could.

        Results of the stretch that are scaled come by themselves, since the gradient of the loss is known later.
        """
        place = {node: number for number, node in enumerate(self.old.nodes)}
        inside = self.stretch.shares.keys() | self.stretch.ops.keys()
        own = {node for node, _ in self.outward if node in self.stretch.scaled}
        before: dict[fx.Node | None, set[fx.Node | None]] = {
            node: {None if source in inside - own else source for source in node.all_input_nodes}
            for node in self.old.nodes
            if node not in inside
        }
        before |= {node: {None} for node in own}
        for node, earlier in draws_before(self.old).items():
            if node in before and earlier in before:
                before[node].add(earlier)
        read = {source for node in inside for source in node.all_input_nodes if source not in inside}
        before[None] = {each for source in read for each in self._without_gradient(source)}
        after: dict[fx.Node | None, list[fx.Node | None]] = {node: [] for node in before}
        for node, sources in before.items():
            for source in sources:
                after[source].append(node)
        missing = {node: len(sources) for node, sources in before.items()}
        first = min(place[node] for node in inside)
        ready = [(place.get(node, first), node is None, node) for node, count in missing.items() if not count]
        heapq.heapify(ready)
        while ready:
            node = heapq.heappop(ready)[2]
            yield node
            for user in after[node]:
                missing[user] -= 1
                if not missing[user]:
                    heapq.heappush(ready, (place.get(user, first), user is None, user))

    def _without_gradient(self, node: fx.Node) -> set[fx.Node]:
        """A node, or for a number computed from the gradient of the loss its other sources."""
        if node not in self.stretch.numbers:
            return {node}
        return {each for source in node.all_input_nodes for each in self._without_gradient(source)}

    def _run_parts(self) -> None:
        found: dict[fx.Node, list[fx.Node]] = {node: [] for node, _ in self.outward}
        sums = {node for node, share in self.outward if share == "sum"}
        for part in self.parts:
            made = self._run(part, {node: found[node][0] for node in sums if found[node]})
            for node in found:
                found[node] = [made[node]] if node in sums else [*found[node], made[node]]
        for node, share in self.outward:
            pieces = found[node]
            whole = pieces[0] if share == "sum" else self._joined(node, pieces, int(share))
            (self.joined if node in self.stretch.scaled else self.made)[node] = whole

    def _run(self, part: _Part, sums: Mapping[fx.Node, fx.Node]) -> dict[fx.Node, fx.Node]:
        """Adds the ops of one part. sums: of the earlier parts."""
        made: dict[fx.Node, fx.Node] = {}
        sliced: dict[tuple[fx.Node, int], fx.Node] = {}
        for call, rule in self.stretch.ops.items():
            args, kwargs = self._arguments(call, rule, part, made, sliced)
            product = _PRODUCTS.get(call.target)
            if call in sums and product is not None:
                made[call] = self._call(call, product, sums[call], *args, part=part)
                made[call].meta[IN_PLACE] = True
                continue
            made[call] = self._call(call, call.target, *args, part=part, **kwargs)
            picks = list(results_of(call, rule)) if isinstance(call.meta["val"], (tuple, list)) else []
            for pick, _ in picks:
                made[pick] = self._call(pick, operator.getitem, made[call], pick.args[1], part=part)
            for node in (call, *(pick for pick, _ in picks)):
                if node in sums:
                    made[node] = self._call(node, _ATEN.add.Tensor, sums[node], made[node], part=part)
                    made[node].meta[IN_PLACE] = True
        return made

    def _arguments(
        self,
        call: fx.Node,
        rule: Rule,
        part: _Part,
        made: Mapping[fx.Node, fx.Node],
        sliced: dict[tuple[fx.Node, int], fx.Node],
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        def current(argument: fx.Node, axis: int | None) -> fx.Node:
            if argument in made:
                return made[argument]
            whole = self._outside(argument)
            if axis is None:
                return whole
            if (argument, axis) not in sliced:
                unit = argument.meta["val"].shape[axis] // self.stretch.extent
                bounds = (axis, part.begin * unit, part.end * unit)
                sliced[argument, axis] = self._call(call, _ATEN.slice.Tensor, whole, *bounds, part=part)
            return sliced[argument, axis]

        names = [parameter.name for parameter in call.target._schema.arguments]
        named = arguments_of(call)

        def argument(name: str, value: Any) -> Any:
            axis = rule.axes.get(name)
            value = fx.map_arg(value, lambda node: current(node, axis))
            if name in rule.extents:
                return self._with_extent(call, rule, name, value, part)
            return value

        args = tuple(argument(name, value) for name, value in zip(names, call.args, strict=False))
        kwargs = {name: argument(name, named[name]) for name in call.kwargs}
        return args, kwargs

    def _with_extent(self, call: fx.Node, rule: Rule, name: str, value: Any, part: _Part) -> Any:
        """The value for a part of an argument that holds the length of the divided axis."""
        rows, place = part.end - part.begin, rule.extents[name]
        if place is None:
            return value // self.stretch.extent * rows
        listed = list(value)
        if name == "size":
            # The argument may leave a length open.
            listed = list(call.meta["val"].shape)
        listed[place] = listed[place] // self.stretch.extent * rows
        return listed

    def _outside(self, node: fx.Node) -> fx.Node:
        """The node that a part reads from outside; what depends on the gradient of the loss is for a gradient of 1."""
        if node not in self.stretch.numbers:
            return self.made[node]
        if node not in self.unit:
            if node.op == "placeholder":
                like = node.meta["val"]
                options = {"dtype": like.dtype, "device": like.device}
                self.unit[node] = self._call(node, _ATEN.full.default, list(like.shape), 1.0, **options)
            else:
                self.unit[node] = self.new.node_copy(node, self._outside)
        return self.unit[node]

    def _scaled(self, node: fx.Node) -> fx.Node:
        assert self.stretch.gradient is not None
        gradient = self.made[self.stretch.gradient]
        if gradient.meta["val"].dim():
            gradient = self._call(node, _ATEN.view.default, gradient, [])
        # Backward must not overwrite what forward has saved for it.
        return self._call(node, _ATEN.mul.Tensor, self.joined[node], gradient)

    def _joined(self, node: fx.Node, pieces: list[fx.Node], axis: int) -> fx.Node:
        """The parts of a result as one tensor with the layout of the result."""
        strides = node.meta["val"].stride()
        order = sorted(range(len(strides)), key=lambda each: -strides[each])
        if order == list(range(len(strides))):
            return self._call(node, _ATEN.cat.default, pieces, axis)
        laid = [self._call(node, _ATEN.permute.default, piece, order) for piece in pieces]
        whole = self._call(node, _ATEN.cat.default, laid, order.index(axis))
        return self._call(node, _ATEN.permute.default, whole, [order.index(each) for each in range(len(order))])

    def _call(self, like: fx.Node, function: Any, *args: Any, part: _Part | None = None, **options: Any) -> fx.Node:
        """A call with the origin of another node. part: to which it belongs, as its name says."""
        name = f"{like.name}_part{part.number + 1}" if part is not None else None
        made = self.new.create_node("call_function", function, args, options, name=name)
        made.meta = {key: value for key, value in like.meta.items() if key not in ("val", "tensor_meta")}
        if part is not None:
            made.meta[PART] = part.number
        values, kept = fx.map_arg((args, options), lambda node: node.meta["val"])
        with _fake_mode(like):
            made.meta["val"] = function(*values, **kept)
        return made


def _fake_mode(node: fx.Node) -> Any:
    """The fake mode of the tensors of a graph."""
    values = [node.meta.get("val"), *(each.meta.get("val") for each in node.all_input_nodes)]
    for value in torch.utils._pytree.tree_leaves(values):
        if isinstance(value, torch.Tensor):
            return value.fake_mode
    raise AssertionError(node.name)
