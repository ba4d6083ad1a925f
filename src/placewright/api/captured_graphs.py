"""One graph between PyTorch's capture and its planned parts: forward and backward, or an inference.

Imported only where torch is known to be present.
"""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._functorch import config as functorch_config
from torch._functorch._aot_autograd import descriptors
from torch._guards import TracingContext
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import _disable_current_modes

from placewright.api.functions import plan as make_plan
from placewright.api.planned_graphs import MAX_PLANS, GraphPlanner, PlannedGraph
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
from placewright.execution.pytorch.profile import unchanged
from placewright.execution.pytorch.program import program_of_graph
from placewright.execution.pytorch.recomputation import keep_masks, partition
from placewright.execution.pytorch.rematerialized import rewritten_program
from placewright.execution.pytorch.stricter_guards import add_stricter_guards, has_effects_outside
from placewright.graph import Graph
from placewright.importers.torch.kernels import kernels_kept
from placewright.importers.torch.ops import describe
from placewright.importers.torch.recurrent import RECURRENT, split_layers
from placewright.plans.record import Plan
from placewright.rematerialization.reruns import rewritten
from placewright.support.errors import InputError

#: Shares of the room for which splits are chosen, until one fits with what its kernels take for themselves.
_ROOM = (1.0, 0.85, 0.7, 0.5)


def compile_graph(planner: GraphPlanner, module: Any, example_inputs: Sequence[Any]) -> Any:
    """What PyTorch calls in place of a graph that it has captured.

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
    # As loops do it, and PyTorch advises: forward and loss under autocast, backward outside.
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
    """Whether autocast is on all around a graph, and keeps what it casts.

    Not of recurrent layers: for each of their time steps there are casts that eager's kernel does not make.
    """
    is_on = any(map(torch.is_autocast_enabled, ("cpu", "cuda"))) and torch.is_autocast_cache_enabled()
    names = {getattr(node.target, "__name__", "") for node in graph.nodes}
    return is_on and not any("autocast" in name for name in names) and names.isdisjoint(RECURRENT)


def _copy_of(module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """The same graph, which stays when the other is changed."""
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
        #: Tensors of the module and arguments of the call, which are counted as such.
        self._of_call: set[str] = set()
        #: Places of results that backward reads, too.
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
            if not _is_open(module) and _computes(module):
                with _disable_current_modes(), torch.no_grad():
                    parts = self._parted(module, parts, num_fwd_outputs, static)
            return parts

        may_split = self._planner.wishes.split and self._planner.limit is not None
        if may_split and not _is_open(joint) and _computes(joint):
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

        A split is chosen without what kernels take for themselves. Where the graph that has it does not fit with that,
        one is chosen for less. Raises InputError as the first does.
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
        planner = self._planner
        placeholders = joint.graph.find_nodes(op="placeholder")
        values = [_value_of(node, self._examples) for node in placeholders]
        self._note(placeholders, values, static)
        one = planner.devices.machine.num_devices == 1
        sums = one and not planner.wishes.inductor
        resident = [node.name in self._resident for node in placeholders]
        read = JointGraph(
            joint,
            num_outputs,
            parts[0],
            name=planner.name,
            resident=resident,
            labels=self._labels,
            as_run=True,
            sums_in_place=sums,
        )
        program = program_of_graph(
            read.module,
            planner.name,
            resident,
            [node.name in self._static for node in placeholders],
            labels=self._labels,
            sums_in_place=sums,
        )
        if planner.wishes.given is not None:
            _check_given(planner.wishes.given, read.graph)
        theirs = () if is_split(joint.graph) else read.run_again_in(parts[1])
        mode = {"mode": "training"}
        read.graph = replace(read.graph, metadata={**read.graph.metadata, **mode})
        program = replace(program, graph=replace(program.graph, metadata={**program.graph.metadata, **mode}))
        with planner.running_once(read.once):
            again = rewritten_program(program, theirs)
            planned = planner.planned(again, rewritten(read.graph, theirs).graph, values, joint=True)
            if planned.plan.reruns and theirs:
                planned = planner.planned(program, read.graph, values, joint=True)
        planned.plan = with_split(planned.plan, joint)
        planned.likes = [(node.name, node.meta["val"]) for node in placeholders]
        planned.is_whole = self._is_whole
        if planned.plan.reruns or is_split(joint.graph):
            parts = read.parted(planned.plan.reruns, static, planned.plan.device_of)
        else:
            read.mark(*parts)
        planned.saved_bytes = self._saved_bytes(parts[0], num_outputs)
        self._planned = planned
        planner.graphs.append(planned)
        return parts

    def _saved_bytes(self, forward: torch.fx.GraphModule, num_outputs: int) -> int:
        """What forward returns behind its results, other than these and what is there from call to call."""
        ends = forward.graph.output_node().args[0]
        saved = [node for node in ends[num_outputs:] if isinstance(node, torch.fx.Node)]
        own = {node for node in saved if node.name not in self._static and node.name not in self._of_call}
        self._kept = [place for place, node in enumerate(ends[:num_outputs]) if node in own]
        held = {node for node in own - {*ends[:num_outputs]} if isinstance(node.meta.get("val"), torch.Tensor)}
        return sum(int(node.meta["val"].untyped_storage().nbytes()) for node in held)

    def _note(self, placeholders: Sequence[Any], values: Sequence[Any], static: Sequence[int]) -> None:
        """What the placeholders are called, and which of them stay."""
        names, planner = self._planner.names(), self._planner
        own = [node for node in placeholders if not is_tangent(node)]
        self._static = {own[index].name for index in static if index < len(own)}
        driver = planner.devices.places[0].driver
        one = planner.devices.machine.num_devices == 1
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
            stays = one and (driver is None or driver.holds(value))
            if stays or node.name in self._static:
                self._resident.add(node.name)

    def forward(self, graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Any:
        """What runs the forward part."""
        return self._part(graph, inputs, first=True)

    def backward(self, graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Any:
        """What runs the backward part."""
        return self._part(graph, inputs, first=False)

    def inference(self, graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Any:
        """What runs a graph that has no backward part."""
        return self._alone(graph, first=True)

    def _part(self, graph: torch.fx.GraphModule, inputs: Sequence[Any], *, first: bool) -> Any:
        planned, planner = self._planned, self._planner
        if planned is None:
            return self._alone(graph, first=first)
        if not _computes(graph):
            return _unplanned(graph)
        placeholders = graph.graph.find_nodes(op="placeholder")
        program = program_of_graph(
            graph,
            planner.name,
            [node.name in self._resident for node in placeholders],
            [node.name in self._static for node in placeholders],
            labels=self._labels,
            sums_in_place=planner.devices.machine.num_devices == 1 and not planner.wishes.inductor,
        )
        part = Part(graph, program, runs_of(graph))
        if first:
            part.kept = self._kept
        planned.parts.append(part)
        part.before = partial(_before_run, planner, planned, part, first)
        with _disable_current_modes(), torch.no_grad():
            planner.run_by(planned, planned.plan)
        return boxed(part)

    def _alone(self, graph: torch.fx.GraphModule, *, first: bool) -> Any:
        """What plans a graph by itself when it first runs, for each set of its open sizes."""
        names = self._planner.names()
        examples = {id(value): names[id(value)] for value in self._examples if id(value) in names}
        self._examples = ()
        context = TracingContext.try_get()
        known = None if context is None else context.fw_metadata
        static = frozenset(known.static_input_indices if first and known is not None else ())
        return boxed(PlannedAlone(self._planner, graph, examples, is_whole=self._is_whole, static=static))


class PlannedAlone:
    """A graph without a backward part, or one of open sizes: planned when it is called with sizes that are new.

    names: of tensors that are known by identity. static: places of arguments that stay from call to call.
    """

    def __init__(
        self,
        planner: GraphPlanner,
        graph: torch.fx.GraphModule,
        names: Mapping[int, str],
        *,
        is_whole: bool,
        static: frozenset[int] = frozenset(),
    ) -> None:
        self._planner = planner
        self._is_whole = is_whole
        self._static = static
        self._graph = graph
        self._is_open = _is_open(graph)
        self._names = names
        self._parts: dict[Any, Callable[[list[Any]], list[Any]]] = {}
        self._lock = threading.Lock()

    def __call__(self, arguments: list[Any]) -> list[Any]:
        """Runs the graph."""
        # PyTorch guards what stays from call to call.
        varying = [given for place, given in enumerate(arguments) if place not in self._static]
        if any(isinstance(given, torch.SymInt) for given in varying):
            raise InputError("a nested tensor has rows of several sizes, and a plan is for one size of each tensor")
        key = tuple(
            (given.shape, given.stride()) if isinstance(given, torch.Tensor) else given for given in varying
        )  # fmt: skip
        with self._lock:
            if key not in self._parts:
                self._parts[key] = self._made(arguments)
                while len(self._parts) > MAX_PLANS:
                    del self._parts[next(iter(self._parts))]
            part = self._parts[key]
        return part(arguments)

    def _made(self, arguments: Sequence[Any]) -> Callable[[list[Any]], list[Any]]:
        planner = self._planner
        graph = _closed(self._graph, arguments) if self._is_open or not _fits(self._graph, arguments) else self._graph
        if not _computes(graph):
            return _unplanned(graph)
        placeholders = graph.graph.find_nodes(op="placeholder")
        is_static = [
            isinstance(given, torch.nn.Parameter) or (place in self._static and isinstance(given, torch.Tensor))
            for place, given in enumerate(arguments)
        ]
        driver = planner.devices.places[0].driver
        one = planner.devices.machine.num_devices == 1
        resident = [
            static or (isinstance(given, torch.Tensor) and one and (driver is None or driver.holds(given)))
            for static, given in zip(is_static, arguments, strict=True)
        ]
        named = planner.names() or self._names
        labels = {
            node.name: named[id(given)]
            for node, given in zip(placeholders, arguments, strict=True)
            if id(given) in named
        }
        program = program_of_graph(
            graph,
            planner.name,
            resident,
            is_static,
            labels=labels,
            sums_in_place=one and not planner.wishes.inductor,
        )
        values = [given for given in arguments if isinstance(given, torch.Tensor)]
        if planner.wishes.given is not None:
            _check_given(planner.wishes.given, program.graph)
        planned = planner.planned(program, program.graph, values, joint=False)
        planned.is_whole = self._is_whole
        given = planner.wishes.given
        by_name = given is not None and not (given.reruns or given.moves)
        part = Part(graph, program, runs_of(graph) if by_name else None)
        planned.likes = [(name, None) for name in part.names]
        planned.parts.append(part)
        planner.run_by(planned, planned.plan)
        part.before = partial(_before_run, planner, planned, part, True)
        planner.graphs.append(planned)
        return part


def _computes(module: torch.fx.GraphModule) -> bool:
    """Whether a graph has a call that is more than a view."""
    calls = (node for node in module.graph.nodes if node.op == "call_function" and node.target is not operator.getitem)
    return any(describe(node)[0] != "view" for node in calls)


def _unplanned(graph: torch.fx.GraphModule) -> Callable[[list[Any]], list[Any]]:
    """What runs a graph in which there is nothing to plan, but views at most."""

    def run(arguments: list[Any]) -> list[Any]:
        with torch.no_grad():
            return list(graph(*arguments))

    return boxed(run)


def _before_run(planner: GraphPlanner, graph: PlannedGraph, part: Part, first: bool, given: list[Any]) -> None:
    """Tells the planner that a graph runs.

    Before the first run of a part Inductor compiles what it may, or the step is recorded.
    """
    if first:
        planner.begins(graph, part, given)
    if part.is_new:
        part.is_new = False
        if not part.fits(given):
            # An op of the user's own returned in forward what its author told PyTorch otherwise.
            part.instead = PlannedAlone(planner, part.module, {}, is_whole=graph.is_whole)
            return
        assert part.step is not None
        parameters, tensors = part.program.split(given)
        changed = part.step.overwritten(parameters, tensors)
        with _disable_current_modes(), torch.no_grad(), unchanged(changed, places=part.step.places):
            if planner.wishes.inductor:
                part.step.compile_regions(parameters, tensors)
            if planner.devices.is_recorded:
                part.step.record(parameters, tensors)


def _value_of(node: Any, examples: Sequence[Any]) -> Any:
    """What a placeholder of a joint graph is called with, or something that lies as it would."""
    meaning, like = node.meta.get("desc"), node.meta["val"]
    if isinstance(meaning, descriptors.PlainAOTInput) and meaning.idx < len(examples):
        value = examples[meaning.idx]
        if isinstance(value, torch.Tensor) and (value.shape, value.dtype) == (like.shape, like.dtype):
            return value
    blank = torch.empty_strided(tuple(like.shape), tuple(like.stride()), dtype=like.dtype, device=like.device)
    return blank.fill_(1) if is_tangent(node) else blank.zero_()


def _check_given(plan: Plan, graph: Graph) -> None:
    """Raises InputError where a plan has other ops than the graph that is to run, but for updates and an optimizer."""
    ours = {op.name for op in graph.ops if op.kind not in ("view", "input")}
    moved = tuple(move.tensor for move in plan.moves)
    planned = (op for op in plan.ops if op.kind not in ("input", "optimizer") and not op.name.startswith(moved))
    theirs = {op.name.split("@")[0] for op in planned}
    others = sorted(ours - theirs) or sorted(
        name for name in theirs - ours if not name.startswith(("copy:", "tangents"))
    )
    if others:
        raise InputError(
            f"the plan of '{plan.graph_name}' is for another module or other arguments: only one of both has an op "
            f"'{others[0]}'"
        )


def _is_open(graph: Any) -> bool:
    return any(not isinstance(node.meta["val"], torch.Tensor) for node in graph.graph.find_nodes(op="placeholder"))


def _fits(graph: Any, arguments: Sequence[Any]) -> bool:
    """Whether a graph was traced for arguments of these shapes.

    An op of the user's own may have returned what its author told PyTorch otherwise.
    """
    placeholders = graph.graph.find_nodes(op="placeholder")
    return all(
        (node.meta["val"].shape, node.meta["val"].dtype) == (given.shape, given.dtype)
        for node, given in zip(placeholders, arguments, strict=True)
        if isinstance(given, torch.Tensor) and isinstance(node.meta["val"], torch.Tensor)
    )


def _closed(graph: Any, inputs: Sequence[Any]) -> Any:
    """The graph as it is for inputs of these sizes."""
    with kernels_kept(), FakeTensorMode(allow_non_fake_inputs=True) as mode, torch.no_grad():
        fake = [mode.from_tensor(given) if isinstance(given, torch.Tensor) else given for given in inputs]
        return make_fx(graph, tracing_mode="real")(*fake)
