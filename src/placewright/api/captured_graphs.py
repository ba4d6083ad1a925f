"""One graph between PyTorch's capture and its planned parts: forward and backward, or an inference.

Imported only where torch is known to be present.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._functorch import config as functorch_config
from torch._functorch._aot_autograd import descriptors
from torch._guards import TracingContext
from torch.utils._python_dispatch import _disable_current_modes

from placewright.api.functions import plan as make_plan
from placewright.api.graphs_alone import PlannedAlone, before_run, check_given, computes, is_open, unplanned
from placewright.api.planned_graphs import GraphPlanner, PlannedGraph
from placewright.api.splits import is_split, split_within, with_split
from placewright.execution.pytorch.joint import (
    JointGraph,
    add_before_casting,
    drop_gradients_of_others,
    is_tangent,
    without_gradient,
)
from placewright.execution.pytorch.miscaptured import check_captured, return_unread_draws
from placewright.execution.pytorch.parts import Part, boxed, runs_of, without_backward
from placewright.execution.pytorch.program import TorchProgram, program_of_graph
from placewright.execution.pytorch.recomputation import keep_masks, partition
from placewright.execution.pytorch.rematerialized import rewritten_program
from placewright.execution.pytorch.stricter_guards import add_stricter_guards, has_effects_outside
from placewright.graph import Graph
from placewright.importers.torch.kernels import kernels_kept
from placewright.importers.torch.recurrent import RECURRENT, split_layers
from placewright.plans.record import Plan
from placewright.rematerialization.reruns import Rerun, rewritten
from placewright.support.errors import InputError

#: Shares of the room for which splits are chosen, until one fits together with its kernels' workspaces.
_ROOM = (1.0, 0.85, 0.7, 0.5)


def compile_graph(planner: GraphPlanner, module: Any, example_inputs: Sequence[Any]) -> Any:
    """Compile a graph that PyTorch has captured, and return the callable that replaces it.

    Raises InputError for a graph that cannot be planned, or does not fit.
    """
    check_captured(module, may_train=planner.may_train)
    known = planner.names()
    if has_effects_outside() or any(isinstance(x, torch.Tensor) and id(x) not in known for x in example_inputs):
        planner.can_be_copied = False
    add_stricter_guards()
    as_captured = _copy_of(module) if planner.verifies else None
    captured = _Captured(planner, example_inputs, casts_once=_casts_once(module.graph))
    compiler = aot_autograd(
        fw_compiler=captured.forward,
        bw_compiler=captured.backward,
        inference_compiler=captured.inference,
        partition_fn=captured.partition,
    )
    split_layers(module.graph)
    unread = return_unread_draws(module)
    module.recompile()
    # Training loops do it so, and PyTorch advises it: forward and loss under autocast, backward outside.
    outside = functorch_config.patch(backward_pass_autocast="off")
    with kernels_kept(), outside, nullcontext() if planner.may_train else torch.no_grad():
        compiled = compiler(module, example_inputs)
    if unread:
        compiled = _without_last(compiled, unread)
    if as_captured is not None:
        compiled = partial(planner.beside_eager, as_captured, compiled)
    if planner.may_train:
        return compiled
    ends = torch.utils._pytree.tree_leaves(module.graph.output_node().args)[: -unread or None]
    wanted = [bool(getattr(end.meta.get("example_value"), "requires_grad", False)) for end in ends]
    return without_backward(compiled, wanted) if any(wanted) else compiled


def _casts_once(graph: torch.fx.Graph) -> bool:
    """True if autocast is on around the whole graph, and caches its casts.

    False for recurrent layers: the trace has casts for each of their time steps that eager's kernel does not make.
    """
    is_on = any(map(torch.is_autocast_enabled, ("cpu", "cuda"))) and torch.is_autocast_cache_enabled()
    names = {getattr(node.target, "__name__", "") for node in graph.nodes}
    return is_on and not any("autocast" in name for name in names) and names.isdisjoint(RECURRENT)


def _copy_of(module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """A copy of the graph, which stays the same when the other is changed."""
    graph = torch.fx.Graph()
    graph.output(graph.graph_copy(module.graph, {}))
    return torch.fx.GraphModule(module, graph)


def _without_last(run: Callable[..., Sequence[Any]], number: int) -> Callable[..., Sequence[Any]]:
    """A compiled graph without its last results."""

    def call(*arguments: Any) -> Sequence[Any]:
        return run(*arguments)[:-number]

    return call


class _Captured:
    """One graph between PyTorch and its parts."""

    def __init__(self, planner: GraphPlanner, example_inputs: Sequence[Any], *, casts_once: bool) -> None:
        self._planner = planner
        self._examples: Sequence[Any] = example_inputs
        #: Whether eager casts each parameter once, for all of the graph.
        self._casts_once = casts_once
        self._planned: PlannedGraph | None = None
        self._is_whole = planner.is_whole
        self._labels: dict[str, str] = {}
        self._static: set[str] = set()
        self._resident: set[str] = set()
        #: Names of placeholders for tensors of the module and arguments of the call, which count elsewhere.
        self._of_call: set[str] = set()
        #: Positions of results that backward also reads.
        self._kept: list[int] = []

    def partition(
        self,
        joint: torch.fx.GraphModule,
        inputs: Any,
        *,
        num_fwd_outputs: int,
        static_lifetime_input_indices: Sequence[int] | None = None,
        **others: Any,
    ) -> tuple[torch.fx.GraphModule, torch.fx.GraphModule]:
        """Forward and backward as a plan of both parts them; graphs with open sizes as PyTorch does."""
        if self._planner.limit is not None:
            keep_masks(joint)
        if self._planner.is_step:
            drop_gradients_of_others(joint, num_fwd_outputs)
        if self._casts_once:
            own = [isinstance(value, torch.nn.Parameter) for value in self._examples]
            places = [getattr(node.meta.get("desc"), "idx", -1) for node in joint.graph.find_nodes(op="placeholder")]
            add_before_casting(joint, num_fwd_outputs, [0 <= place < len(own) and own[place] for place in places])
        self._check_hooks(without_gradient(joint, num_fwd_outputs))
        static = list(static_lifetime_input_indices or ())

        def whole_or_in_parts(module: torch.fx.GraphModule) -> tuple[torch.fx.GraphModule, torch.fx.GraphModule]:
            parts = partition(
                module,
                inputs,
                num_fwd_outputs=num_fwd_outputs,
                static_lifetime_input_indices=static_lifetime_input_indices,
                **others,
            )
            if not is_open(module) and computes(module):
                with _disable_current_modes(), torch.no_grad():
                    parts = self._parted(module, parts, num_fwd_outputs, static)
            return parts

        may_split = self._planner.wishes.split and self._planner.limit is not None
        if may_split and not is_open(joint) and computes(joint):
            parts = self._in_parts(joint, num_fwd_outputs, static, whole_or_in_parts)
        else:
            parts = whole_or_in_parts(joint)
        self._examples = ()
        return parts

    def _check_hooks(self, without: Sequence[int]) -> None:
        """Raises InputError for a hook that PyTorch would call without a gradient, and eager does not call."""
        for place in without:
            value = self._examples[place] if place < len(self._examples) else None
            if isinstance(value, torch.Tensor) and value.is_leaf and value.requires_grad and value._backward_hooks:
                name = self._planner.names().get(id(value), f"argument {place}")
                raise InputError(
                    f"'{name}' has a hook and gets no gradient in this graph, and PyTorch would call the hook with "
                    "None; register it only where there is a gradient"
                )

    def _in_parts(
        self,
        joint: torch.fx.GraphModule,
        num_outputs: int,
        static: Sequence[int],
        parted: Callable[[torch.fx.GraphModule], tuple[torch.fx.GraphModule, torch.fx.GraphModule]],
    ) -> tuple[torch.fx.GraphModule, torch.fx.GraphModule]:
        """Forward and backward of the graph with a stretch in parts, where that keeps the limit at less time.

        A split is chosen without counting the workspaces of kernels. Where the split graph does not fit with them,
        another split is chosen for less memory. Raises InputError as the first does.
        """
        refused: InputError | None = None
        for share in _ROOM:
            with _disable_current_modes(), torch.no_grad():
                module = self._split(joint, num_outputs, static, share)
            if module is joint and refused is not None:
                continue
            try:
                return parted(module)
            except InputError as error:
                refused = refused or error
        assert refused is not None
        raise refused

    def _split(
        self, joint: torch.fx.GraphModule, num_outputs: int, static: Sequence[int], share: float
    ) -> torch.fx.GraphModule:
        """The graph with the fastest split within a share of the room; itself where none takes less time."""
        planner = self._planner
        placeholders = joint.graph.find_nodes(op="placeholder")
        values = [_value_of(node, self._examples) for node in placeholders]
        self._note(placeholders, values, static)
        whole = planner.room_for(values)
        assert whole is not None
        room = int(share * whole)
        resident = [node.name in self._resident for node in placeholders]
        given = {node.name for node in placeholders if node.name not in self._static and not is_tangent(node)}

        def read(module: torch.fx.GraphModule) -> Graph:
            return JointGraph(module, num_outputs, None, resident=resident, as_run=True, sums_in_place=True).graph

        def planned(graph: Graph) -> Plan:
            return make_plan(
                graph,
                planner.devices.machine,
                solver="input-order",
                memory_limit=room,
                keep=[*planner.options["keep"], "move:*", "weight:*"],
            )

        return split_within(joint, given, room, read, planned) or joint

    def _parted(
        self,
        joint: torch.fx.GraphModule,
        parts: tuple[torch.fx.GraphModule, torch.fx.GraphModule],
        num_outputs: int,
        static: Sequence[int],
    ) -> tuple[torch.fx.GraphModule, torch.fx.GraphModule]:
        placeholders = joint.graph.find_nodes(op="placeholder")
        values = [_value_of(node, self._examples) for node in placeholders]
        self._note(placeholders, values, static)
        read, program = self._read(joint, parts[0], num_outputs)
        theirs = () if is_split(joint.graph) else read.run_again_in(parts[1])
        planned = self._plan(read, program, theirs, values)
        planned.plan = with_split(planned.plan, joint)
        planned.likes = [(node.name, node.meta["val"]) for node in placeholders]
        planned.is_whole = self._is_whole
        if planned.plan.reruns or is_split(joint.graph):
            parts = read.parted(planned.plan.reruns, static, planned.plan.device_of)
        else:
            read.mark(*parts)
        planned.saved_bytes = self._saved_bytes(parts[0], num_outputs)
        self._planned = planned
        self._planner.graphs.append(planned)
        return parts

    def _read(
        self, joint: torch.fx.GraphModule, forward: torch.fx.GraphModule, num_outputs: int
    ) -> tuple[JointGraph, TorchProgram]:
        """The joint graph of forward and backward, to be planned and to be measured.

        Raises InputError where it is not the graph of the plan that was given.
        """
        planner = self._planner
        resident, static = self._stays(joint)
        read = JointGraph(
            joint,
            num_outputs,
            forward,
            name=planner.name,
            resident=resident,
            labels=self._labels,
            as_run=True,
            sums_in_place=planner.sums_in_place,
        )
        program = program_of_graph(
            read.module, planner.name, resident, static, labels=self._labels, sums_in_place=planner.sums_in_place
        )
        if planner.wishes.given is not None:
            check_given(planner.wishes.given, read.graph)
        read.graph = _of_training(read.graph)
        return read, replace(program, graph=_of_training(program.graph))

    def _plan(
        self, read: JointGraph, program: TorchProgram, theirs: Sequence[Rerun], values: Sequence[Any]
    ) -> PlannedGraph:
        """A plan with what PyTorch's own partition runs again; without it, where the plan runs ops again itself."""
        planner = self._planner
        with planner.running_once(read.once):
            again = rewritten_program(program, theirs)
            planned = planner.planned(again, rewritten(read.graph, theirs).graph, values, joint=True)
            if planned.plan.reruns and theirs:
                planned = planner.planned(program, read.graph, values, joint=True)
        return planned

    def _stays(self, graph: torch.fx.GraphModule) -> tuple[list[bool], list[bool]]:
        """Two lists: whether each placeholder lies on the device, and whether it is the same from call to call."""
        names = [node.name for node in graph.graph.find_nodes(op="placeholder")]
        return [name in self._resident for name in names], [name in self._static for name in names]

    def _saved_bytes(self, forward: torch.fx.GraphModule, num_outputs: int) -> int:
        """Count the bytes that forward saves for backward, without its results and what stays from call to call."""
        ends = forward.graph.output_node().args[0]
        saved = [node for node in ends[num_outputs:] if isinstance(node, torch.fx.Node)]
        own = {node for node in saved if node.name not in self._static and node.name not in self._of_call}
        self._kept = [place for place, node in enumerate(ends[:num_outputs]) if node in own]
        held = {node for node in own - {*ends[:num_outputs]} if isinstance(node.meta.get("val"), torch.Tensor)}
        return sum(int(node.meta["val"].untyped_storage().nbytes()) for node in held)

    def _note(self, placeholders: Sequence[Any], values: Sequence[Any], static: Sequence[int]) -> None:
        """Record the names of the placeholders, and which of them stay."""
        names, planner = self._planner.names(), self._planner
        own = [node for node in placeholders if not is_tangent(node)]
        self._static = {own[index].name for index in static if index < len(own)}
        taken: set[str] = set()
        for node, value in zip(placeholders, values, strict=True):
            name = names.get(id(value), node.name)
            while name in taken:
                name += "_"
            taken.add(name)
            self._labels[node.name] = name
            if id(value) in names:
                self._of_call.add(node.name)
            if is_tangent(node):
                continue
            if isinstance(value, torch.nn.Parameter):
                self._static.add(node.name)
            # The caller holds what lies there already; the rest is copied, and freed after its last reader.
            if planner.devices.hold(value) or node.name in self._static:
                self._resident.add(node.name)

    def forward(self, graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Any:
        """A callable that runs the forward part."""
        return self._part(graph, inputs, first=True)

    def backward(self, graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Any:
        """A callable that runs the backward part."""
        return self._part(graph, inputs, first=False)

    def inference(self, graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Any:
        """A callable that runs a graph without a backward part."""
        return self._alone(graph, first=True)

    def _part(self, graph: torch.fx.GraphModule, inputs: Sequence[Any], *, first: bool) -> Any:
        planned, planner = self._planned, self._planner
        if planned is None:
            return self._alone(graph, first=first)
        if not computes(graph):
            return unplanned(graph)
        resident, static = self._stays(graph)
        program = program_of_graph(
            graph, planner.name, resident, static, labels=self._labels, sums_in_place=planner.sums_in_place
        )
        part = Part(graph, program, runs_of(graph))
        if first:
            part.kept = self._kept
        planned.parts.append(part)
        part.before = partial(before_run, planner, planned, part, first)
        with _disable_current_modes(), torch.no_grad():
            planner.run_by(planned, planned.plan)
        return boxed(part)

    def _alone(self, graph: torch.fx.GraphModule, *, first: bool) -> Any:
        """A callable that plans a graph by itself when it first runs, for each set of its open sizes."""
        names = self._planner.names()
        examples = {id(value): names[id(value)] for value in self._examples if id(value) in names}
        self._examples = ()
        context = TracingContext.try_get()
        known = None if context is None else context.fw_metadata
        static = frozenset(known.static_input_indices if first and known is not None else ())
        return boxed(PlannedAlone(self._planner, graph, examples, is_whole=self._is_whole, static=static))


def _of_training(graph: Graph) -> Graph:
    return replace(graph, metadata={**graph.metadata, "mode": "training"})


def _value_of(node: Any, examples: Sequence[Any]) -> Any:
    """The value passed for a placeholder of a joint graph, or a blank tensor with the same layout."""
    meaning, like = node.meta.get("desc"), node.meta["val"]
    if isinstance(meaning, descriptors.PlainAOTInput) and meaning.idx < len(examples):
        value = examples[meaning.idx]
        if isinstance(value, torch.Tensor) and (value.shape, value.dtype) == (like.shape, like.dtype):
            return value
    blank = torch.empty_strided(tuple(like.shape), tuple(like.stride()), dtype=like.dtype, device=like.device)
    return blank.fill_(1) if is_tangent(node) else blank.zero_()
