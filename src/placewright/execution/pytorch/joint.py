"""The joint graph of forward and backward, read in two passes, with ops that run again as a plan says.

Imported only where torch is known to be present.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any

import torch
from torch import fx
from torch._functorch._aot_autograd import descriptors
from torch._functorch.partitioners import _extract_fwd_bwd_modules

from placewright.execution.pytorch.joint_rewriting import RUN, ReadJoint, Rewriting, results_of
from placewright.execution.pytorch.miscaptured import OpenSizesError
from placewright.execution.pytorch.open_sizes import Sizes, is_size
from placewright.graph import Graph, Op
from placewright.importers.torch.added import added
from placewright.importers.torch.capture import ancestors, capture_graph
from placewright.importers.torch.graph import translate
from placewright.importers.torch.marks import PART
from placewright.importers.torch.ops import draws_random_numbers
from placewright.rematerialization.reruns import Move, Rerun, rewritten
from placewright.support.errors import InputError

_COPY = torch.ops.aten.copy_.default
#: Checks of values, which return nothing.
_CHECKS = (torch.ops.aten._assert_async.default, torch.ops.aten._assert_async.msg)


class JointGraph:
    """A joint graph of aot_autograd, read as a graph to be planned.

    forward: PyTorch's own, which may hold nodes that only backward needs; None where it is not known. resident: for
    each placeholder, whether it is there from beginning to end; the others are there from where they are made:
    gradients that backward receives, and arguments brought to a device. labels: names of placeholders in the module.
    as_run: whether the plan is for ops that PyTorch runs one by one, without needless copies; otherwise for a compiler.
    sums_in_place: whether gradients of one tensor may be added in place. sizes: the numbers for which a graph with open
    sizes is read.

    Attributes
    ----------
    graph
        Forward, then backward, in the order of tracing.
    once
        Names of the ops whose second run would give other results: they draw random numbers, are collectives, or read
        tensors that forward overwrites.
    collectives
        Names of those that send to other processes, or wait for them.
    """

    def __init__(
        self,
        joint: fx.GraphModule,
        num_forward_outputs: int,
        forward: fx.GraphModule | None,
        *,
        name: str = "inductor",
        resident: Sequence[bool] | None = None,
        labels: Mapping[str, str] | None = None,
        as_run: bool = False,
        sums_in_place: bool = False,
        sizes: Sizes | None = None,
    ) -> None:
        self._joint = joint
        self._sizes = sizes
        self._may_send = not as_run
        self._num_forward_outputs = num_forward_outputs
        self._check()
        writes = [node for node in joint.graph.nodes if node.target is _COPY]
        in_backward = [node for node in writes if node.meta.get("partitioner_tag") == "must_be_in_backward"]
        self._writes = {False: [node for node in writes if node not in in_backward], True: in_backward}
        self._checks = [node for node in joint.graph.nodes if node.target in _CHECKS]
        self._forward = self._nodes_of_forward(forward)
        self._of: dict[fx.Node, fx.Node] = {}
        checked = [node.args[0] for node in self._checks]
        read = self._in_passes([*results_of(joint.graph), *(node.args[1] for node in writes), *checked])
        #: The same nodes in passes, as a module.
        self.module = fx.GraphModule(joint, read)
        placeholders = self.module.graph.find_nodes(op="placeholder")
        self.resident = resident or [not is_tangent(node) for node in placeholders]
        captured = capture_graph(read, self.resident, labels)
        graph, tensors = translate(captured, name, None, copies=not as_run, sums_in_place=sums_in_place)
        self._tensors = {self._of[node]: found for node, found in tensors.items()}
        self._node = {node.name: self._of[node] for node in read.nodes if node.op == "call_function"}
        tangents = {f"input:{node.name}" for node in placeholders if is_tangent(node)}
        self.graph = _with_late_inputs(graph, self.is_forward, tangents)
        if as_run:
            self.graph = _with_forward_first(self.graph, self.is_forward)
        self.collectives, self.once = self._once()

    def _nodes_of_forward(self, forward: fx.GraphModule | None) -> set[fx.Node]:
        """The nodes that forward computes. forward: PyTorch's own forward graph."""
        nodes = self._joint.graph.nodes
        own_nodes = () if forward is None else forward.graph.nodes
        theirs = {node.name for node in own_nodes if node.op == "call_function"}
        ends = list(results_of(self._joint.graph))[: self._num_forward_outputs]
        first = [*ends, *(node.args[1] for node in self._writes[False]), *(node.args[0] for node in self._checks)]
        # Nodes of a part may have the names of others of the joint graph.
        late = _reached_by_tangents(self._joint.graph)
        # Nodes that run in parts with forward belong to forward, even if forward does not need them.
        own = (node for node in nodes if node not in late and (node.name in theirs or PART in node.meta))
        return ancestors([node for node in (*first, *own) if isinstance(node, fx.Node)])

    def _once(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The names of collectives, and of all ops whose second run would give other results."""
        written = {node.args[0] for writes in self._writes.values() for node in writes} | overwritten(self._joint.graph)
        ops = [op.name for op in self.graph.ops if op.kind not in ("view", "input")]
        collectives = tuple(name for name in ops if _is_collective(self._node[name]))
        once = tuple(
            name
            for name in ops
            if name in collectives
            or draws_random_numbers(node := self._node[name])
            or not written.isdisjoint(node.all_input_nodes)
        )
        return collectives, once

    def giving_away(self, places: Collection[int]) -> Graph:
        """The graph where the gradients of arguments at such places are given away as soon as they are made."""
        results = self._joint.graph.output_node().args[0][self._num_forward_outputs :]
        given = {tensor for place in places for tensor in self._tensors.get(results[place], ())}
        tensors = [
            replace(tensor, is_output=tensor.is_output and index not in given)
            for index, tensor in enumerate(self.graph.tensors)
        ]
        return replace(self.graph, tensors=tuple(tensors)) if given else self.graph

    def parted(
        self,
        reruns: Sequence[Rerun],
        static_inputs: Sequence[int],
        device_of: Mapping[str, int] | None = None,
        moves: Sequence[Move] = (),
    ) -> tuple[fx.GraphModule, fx.GraphModule]:
        """Forward and backward with the reruns and moves of a plan. device_of: devices of ops, by name, in the order of
        their first runs; by default all are on one device, in the order of the graph."""
        read = ReadJoint(
            module=self._joint,
            num_forward_outputs=self._num_forward_outputs,
            planned=self.graph,
            tensors=self._tensors,
            node_of=self._node,
            forward=self._forward,
            tangents=[node for node in self._joint.graph.find_nodes(op="placeholder") if is_tangent(node)],
            checks=self._checks,
            writes=self._writes,
        )
        module, found = Rewriting(read, rewritten(self.graph, reruns, moves, device_of)).done()
        saved = [node for node in found if not is_size(node)]
        placeholders = module.graph.find_nodes(op="placeholder")
        parts: tuple[fx.GraphModule, fx.GraphModule] = _extract_fwd_bwd_modules(
            module,
            saved,
            [node for node in found if is_size(node)],
            num_fwd_outputs=self._num_forward_outputs,
            static_lifetime_input_nodes=torch.utils._ordered_set.OrderedSet(placeholders[i] for i in static_inputs),
        )
        return parts

    def mark(self, forward: fx.GraphModule, backward: fx.GraphModule) -> None:
        """Marks each node of PyTorch's own parts with its run, where `run_again_in` says what backward runs again."""
        for node in forward.graph.nodes:
            node.meta[RUN] = node.name
        for node in backward.graph.nodes:
            node.meta[RUN] = f"{node.name}@2" if self.is_forward(node.name) else node.name

    def run_again_in(self, backward: fx.GraphModule) -> tuple[Rerun, ...]:
        """The reruns of forward's ops in PyTorch's own backward."""
        ops, found, waiting = {op.name: op for op in self.graph.ops}, list[Rerun](), list[str]()
        for node in backward.graph.nodes:
            if node.op != "call_function" or node.name not in ops or ops[node.name].kind == "view":
                continue
            if self.is_forward(node.name):
                waiting.append(node.name)
                continue
            for op in waiting:
                tensors = tuple(self.graph.tensors[tensor].name for tensor in ops[op].outputs)
                found.append(Rerun(name=f"{op}@2", op=op, before=node.name, tensors=tensors))
            waiting.clear()
        return tuple(found)

    def _check(self) -> None:
        for node in self._joint.graph.nodes:
            if node.target in _CHECKS:
                continue
            if node.op == "call_function" and "val" not in node.meta:
                raise OpenSizesError(f"the node {node.name} of a captured graph does not say what it makes")
            if node.op == "placeholder" and is_size(node) and self._sizes is None:
                raise InputError(
                    "PyTorch compiles this graph for open sizes, as it does from the second shape of an argument on, "
                    "and a memory limit is for sizes that are known; torch.compile(..., dynamic=False) plans per shape"
                )
            if is_size(node) and not all(map(is_size, node.all_input_nodes)):
                raise OpenSizesError(f"the node {node.name} of a captured graph asks for the size of a result")
            # Collectives that run one by one may run in another order than in other processes.
            is_known = node.target is _COPY or (self._may_send and _is_collective(node))
            if node.op == "call_function" and not is_known and node.is_impure(impure_random=False):
                raise InputError(
                    f"the op {node.target} of a captured graph does something beside what it returns, and no plan "
                    "under a memory limit runs it"
                )

    def _in_passes(self, results: Sequence[Any]) -> fx.Graph:
        """A copy without writes and checks, forward first."""
        read, made = fx.Graph(), dict[fx.Node, Any]()
        left_out = (_COPY, *_CHECKS)
        nodes = [node for node in self._joint.graph.nodes if node.op != "output" and node.target not in left_out]
        if self._sizes:
            made.update((node, self._sizes.number(node.meta.get("val"))) for node in nodes if is_size(node))
        for node in sorted(nodes, key=lambda node: (1 + (node not in self._forward)) * (node.op == "call_function")):
            if node in made:
                continue
            made[node] = read.node_copy(node, made.__getitem__)
            self._of[made[node]] = node
            if self._sizes and "val" in node.meta:
                made[node].meta["val"] = self._sizes.known(node.meta["val"])
        read.output(tuple(made[node] if isinstance(node, fx.Node) else node for node in results))
        read.owning_module = self._joint
        return read

    def is_forward(self, op: str) -> bool:
        """True if an op of the graph, by its name, belongs to forward."""
        return op in self._node and self._node[op] in self._forward


def _is_collective(node: fx.Node) -> bool:
    """True if a call sends to other processes, or waits for them: it does nothing else, and runs once."""
    return getattr(node.target, "namespace", "") == "_c10d_functional"


def is_tangent(node: fx.Node) -> bool:
    """True if a placeholder of a joint graph is a gradient that backward receives."""
    return "tangents" in str(node.target)


def _reached_by_tangents(graph: fx.Graph) -> set[fx.Node]:
    """The gradients that backward receives, and all nodes computed from them."""
    reached = {node for node in graph.find_nodes(op="placeholder") if is_tangent(node)}
    for node in graph.nodes:
        if not reached.isdisjoint(node.all_input_nodes):
            reached.add(node)
    return reached


def overwritten(graph: fx.Graph) -> set[fx.Node]:
    """The arguments of a joint graph that forward overwrites."""
    meant = {node.meta["desc"]: node for node in graph.find_nodes(op="placeholder") if "desc" in node.meta}
    ends = graph.output_node().meta.get("desc", ())
    return {meant[end.mutated_input] for end in ends if isinstance(end, descriptors.InputMutationAOTOutput)}


def drop_gradients_of_others(joint: fx.GraphModule, num_forward_outputs: int) -> None:
    """Replaces gradients of arguments that a training step's loss does not reach by None, as in eager.

    PyTorch gives zeros.

    Backward of a step begins at its loss alone, which is the only scalar among the results that have gradients.
    """
    tangents = [node for node in joint.graph.find_nodes(op="placeholder") if is_tangent(node)]
    scalars = [node for node in tangents if node.meta["val"].numel() == 1]
    ends = [getattr(node.meta.get("desc"), "output", None) for node in tangents]
    if len(scalars) != 1 or any(not isinstance(end, descriptors.PlainAOTOutput) for end in ends):
        return
    reached = set(scalars)
    for node in joint.graph.nodes:
        if not reached.isdisjoint(node.all_input_nodes):
            reached.add(node)
    results = list(results_of(joint.graph))
    gradients = [node if node in reached else None for node in results[num_forward_outputs:]]
    joint.graph.output_node().args = ((*results[:num_forward_outputs], *gradients),)


def add_before_casting(joint: fx.GraphModule, num_forward_outputs: int, is_parameter: Sequence[bool]) -> None:
    """Adds gradients of a parameter that autocast casts in the lower precision, like eager, which casts it once.

    is_parameter: for each argument. PyTorch captures a cast for each use.
    """
    results = list(results_of(joint.graph))
    for place, node in enumerate(results[num_forward_outputs:], num_forward_outputs):
        if not isinstance(node, fx.Node) or not is_parameter[place - num_forward_outputs]:
            continue
        terms = _terms(node)
        casts = [term for term in terms if _is_upcast(term)]
        others = [term for term in terms if term not in casts]
        if len(casts) < 2 or len(others) > 1:
            continue
        with joint.graph.inserting_before(joint.graph.output_node()):
            total = casts[0].args[0]
            for cast in casts[1:]:
                total = added(node, torch.ops.aten.add.Tensor, total, cast.args[0])
            total = added(node, torch.ops.aten._to_copy.default, total, **casts[0].kwargs)
            for other in others:
                total = added(node, torch.ops.aten.add.Tensor, other, total)
        results[place] = total
    joint.graph.output_node().args = (tuple(results),)
    joint.graph.eliminate_dead_code()


def _terms(node: fx.Node) -> list[fx.Node]:
    """The terms of a sum, in its order."""
    is_sum = node.target is torch.ops.aten.add.Tensor and not node.kwargs and len(node.users) == 1
    if not is_sum or not all(isinstance(each, fx.Node) for each in node.args):
        return [node]
    return [term for each in node.args for term in _terms(each)]


def _is_upcast(node: fx.Node) -> bool:
    if node.target is not torch.ops.aten._to_copy.default or len(node.users) != 1:
        return False
    before, after = node.args[0].meta["val"].dtype, node.meta["val"].dtype
    return after == torch.float32 and before in (torch.bfloat16, torch.float16)


def without_gradient(joint: fx.GraphModule, num_forward_outputs: int) -> list[int]:
    """The places of the arguments for which backward has no gradient."""
    return [place for place, node in enumerate([*results_of(joint.graph)][num_forward_outputs:]) if node is None]


def _with_late_inputs(graph: Graph, is_forward: Callable[[str], bool], late: Set[str]) -> Graph:
    """The graph with the given inputs, which are gradients that backward receives, behind forward."""
    rank = [1 if op.name in late else 0 if op.kind == "input" or is_forward(op.name) else 2 for op in graph.ops]
    order = sorted(range(len(graph.ops)), key=lambda index: rank[index])
    place = {index: number for number, index in enumerate(order)}
    moved = (
        replace(op, controls=tuple(place[control] for control in op.controls))
        for op in (graph.ops[index] for index in order)
    )
    return replace(graph, ops=tuple(moved))


def _with_forward_first(graph: Graph, is_forward: Callable[[str], bool]) -> Graph:
    """The graph in which no op of backward starts before forward is over: its results go to the caller first."""
    forward = {index for index, op in enumerate(graph.ops) if is_forward(op.name) and op.kind != "view"}
    before = [_scheduled_before(graph, index) for index in range(len(graph.ops))]
    last = forward - {producer for index in forward for producer in before[index]}

    def controls(index: int, op: Op) -> tuple[int, ...]:
        begins = index not in forward and op.kind != "view" and before[index] <= forward
        return tuple(sorted({*op.controls, *last})) if begins and is_late(op) else op.controls

    def is_late(op: Op) -> bool:
        return op.kind != "input" or op.name.startswith("input:tangents")

    return replace(
        graph, ops=tuple(replace(op, controls=controls(index, op)) for index, op in enumerate(graph.ops))
    )  # fmt: skip


def _scheduled_before(graph: Graph, index: int) -> set[int]:
    """The ops, views aside, whose results an op reads, and those that it waits for."""
    found = set(graph.ops[index].controls)
    waiting = list(graph.ops[index].inputs)
    while waiting:
        producer = graph.producer_of[waiting.pop()]
        if producer < 0:
            continue
        if graph.ops[producer].kind == "view":
            waiting += graph.ops[producer].inputs
        else:
            found.add(producer)
    return found
