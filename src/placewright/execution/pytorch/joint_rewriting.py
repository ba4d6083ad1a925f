"""A rewritten joint graph of forward and backward, with ops that run again and tensors that leave and come back.

Imported only where torch is known to be present.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from placewright.execution.pytorch.offloading import OFFLOAD, RELOAD, WAIT
from placewright.execution.pytorch.open_sizes import is_size
from placewright.graph import LEAVE_TARGET, Graph, Op
from placewright.importers.torch.added import added
from placewright.rematerialization.reruns import Rewritten

#: The key by which a node of a part names its run: an op or a rerun of the plan of both parts.
RUN = "placewright_run"


@dataclass(frozen=True, kw_only=True)
class ReadJoint:
    """A joint graph, and how its nodes correspond to the graph that is planned.

    planned: that graph. tensors: its tensors for each node. node_of: the node of each op, by name. forward: the nodes
    of forward. tangents: placeholders of gradients that backward receives. checks: of values. writes: to arguments, in
    backward or not.
    """

    module: fx.GraphModule
    num_forward_outputs: int
    planned: Graph
    tensors: Mapping[fx.Node, Sequence[int | None]]
    node_of: Mapping[str, fx.Node]
    forward: Set[fx.Node]
    tangents: Sequence[fx.Node]
    checks: Sequence[fx.Node]
    writes: Mapping[bool, Sequence[fx.Node]]

    def is_forward(self, op: str) -> bool:
        """True if an op of the graph, by its name, belongs to forward."""
        return op in self.node_of and self.node_of[op] in self.forward


class Rewriting:
    """A joint graph that is rewritten run by run.

    made: the node of each tensor of the rewritten graph. view: for each that is a view, the run that makes it.
    constants: the nodes of arguments and attributes. forward: its nodes, once they are all there. at_host: the copies
    of tensors that are moved, by tensor. begun: the copies of tensors that are on their way back, by the new tensor.
    """

    def __init__(self, joint: ReadJoint, found: Rewritten) -> None:
        self.joint = joint
        self.found = found
        self.graph = fx.Graph()
        self.made: dict[int, fx.Node] = {}
        self.constants: dict[fx.Node, fx.Node] = {}
        self.view: dict[int, int] = {}
        self.forward: set[fx.Node] = set()
        moving = [op for op, original in zip(found.graph.ops, found.op_of, strict=True) if original < 0]
        self.moved = {op.inputs[0] for op in moving}
        self.at_host: dict[int, fx.Node] = {}
        self.begun: dict[int, fx.Node] = {}

    def done(self) -> tuple[fx.GraphModule, list[fx.Node]]:
        """The joint graph, and the nodes of forward that backward reads."""
        joint, ops = self.joint.module, self.found.graph.ops
        for node in joint.graph.nodes:
            if node.op in ("placeholder", "get_attr") or is_size(node):
                self.constants[node] = self.graph.node_copy(node, self.constants.__getitem__)
                for tensor in self.joint.tensors.get(node, ()):
                    assert tensor is not None
                    self.made[tensor] = self.constants[node]
        last = max(place for place, op in enumerate(ops) if self.joint.is_forward(op.name))
        early = self._leaving_between(last)
        for place in (*range(last + 1), *early):
            self._run(place)
        results, count = list(results_of(joint.graph)), self.joint.num_forward_outputs
        ends = [self._now(node) for node in results[:count]]
        for node in self.joint.checks:
            self.graph.node_copy(node, self._now)
        self._write(False)
        self.forward = set(self.graph.nodes)
        for place in range(last + 1, len(ops)):
            if place not in early:
                self._run(place)
        ends += [self._now(node) for node in results[count:]]
        self._write(True)
        read = {source for node in self.graph.nodes if node not in self.forward for source in node.all_input_nodes}
        read.update(node for node in ends[count:] if isinstance(node, fx.Node))
        late = {self.constants[node] for node in self.joint.tangents}
        kept = (self.forward & read) - late
        saved = [node for node in self.graph.nodes if node in kept and node.op != "get_attr"]
        self.graph.output(tuple(ends)).meta = dict(joint.graph.output_node().meta)
        return fx.GraphModule(joint, self.graph), saved

    def _run(self, place: int) -> None:
        """Adds one run of an op: its node, and those that select its results."""
        op = self.found.graph.ops[place]
        if op.kind == "input":
            return
        if self.found.op_of[place] < 0:
            self._move(op)
            return
        self._call(place)
        if op.kind == "view":
            self.view |= dict.fromkeys(op.outputs, place)

    def _call(self, place: int) -> None:
        joint, run = self.joint, self.found.graph.ops[place]
        original = joint.planned.ops[self.found.op_of[place]]
        now = dict(zip(original.inputs, run.inputs, strict=True))
        node = joint.node_of[original.name]

        def current(argument: fx.Node) -> fx.Node:
            tensor = self._tensor_of(argument)
            return self.constants[argument] if tensor is None else self._value(now[tensor])

        call = self.graph.node_copy(node, current)
        call.meta[RUN] = run.name
        if self.forward:
            call.meta["partitioner_tag"] = "is_backward"
        outputs = dict(zip(original.outputs, run.outputs, strict=True))
        if not isinstance(node.meta["val"], (tuple, list)):
            self.made[run.outputs[0]] = call
        else:
            for pick in node.users:
                tensor = self._tensor_of(pick)
                if pick.target is operator.getitem and tensor is not None:
                    self.made[outputs[tensor]] = self.graph.node_copy(pick, lambda _: call)
        for tensor in self.moved.intersection(run.outputs):
            # A move begins as soon as the tensor is made.
            self.at_host[tensor] = self._moving(OFFLOAD, self.made[tensor])

    def _leaving_between(self, last: int) -> list[int]:
        """The runs after forward's last by which a tensor of forward has left that nothing of backward reads before. It
        leaves at the end of forward; otherwise forward would pass it to backward."""
        graph, found, read = self.found.graph, list[int](), set[int]()
        for place in range(last + 1, len(graph.ops)):
            op = graph.ops[place]
            if op.target == LEAVE_TARGET and graph.producer_of[op.inputs[0]] <= last and op.inputs[0] not in read:
                found.append(place)
            elif self.found.op_of[place] >= 0:
                read.update(graph.base_of[tensor] for tensor in op.inputs)
        return found

    def _move(self, op: Op) -> None:
        """Adds the end of a tensor's move to the host, or the start of its return. The move began when it was made."""
        tensor = op.inputs[0]
        if op.target == LEAVE_TARGET:
            self.at_host[tensor] = self._moving(WAIT, self.at_host[tensor], self.made[tensor])
        elif op.outputs:
            device = self.made[tensor].meta["val"].device
            self.begun[op.outputs[0]] = self._moving(RELOAD, self.at_host[tensor], device)

    def _moving(self, function: Any, node: fx.Node, *args: Any) -> fx.Node:
        call = added(node, function, node, *args, graph=self.graph)
        call.meta.pop("recompute", None)
        call.meta["partitioner_tag"] = "is_backward" if self.forward else "is_forward"
        return call

    def _value(self, tensor: int) -> fx.Node:
        """The node of a tensor; in backward views of forward are made again. A tensor on its way back is awaited."""
        if tensor in self.begun:
            begun = self.begun.pop(tensor)
            self.made[tensor] = self._moving(WAIT, begun, begun.args[0])
        if tensor in self.view and self.forward and self.made[tensor] in self.forward:
            self._call(self.view[tensor])
        return self.made[tensor]

    def _now(self, node: Any) -> Any:
        """The node that replaces a result of the joint graph: the result of its first run."""
        if not isinstance(node, fx.Node):
            return node
        tensor = self._tensor_of(node)
        return self.constants[node] if tensor is None else self.made[tensor]

    def _tensor_of(self, node: fx.Node) -> int | None:
        """The tensor for a node of the joint graph; None where the plan has none."""
        return self.joint.tensors.get(node, (None,))[0]

    def _write(self, in_backward: bool) -> None:
        for node in self.joint.writes[in_backward]:
            self.graph.node_copy(node, self._now)


def results_of(graph: fx.Graph) -> Iterator[Any]:
    """The results of a joint graph."""
    return iter(torch.utils._pytree.arg_tree_leaves(*graph.output_node().args))
