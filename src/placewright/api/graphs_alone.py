"""Graphs that are planned by themselves when they first run: inferences, and those of open sizes.

Imported only where torch is known to be present.
"""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import _disable_current_modes

from placewright.api.planned_graphs import MAX_PLANS, GraphPlanner, PlannedGraph
from placewright.execution.pytorch.parts import Part, boxed, runs_of
from placewright.execution.pytorch.profile import unchanged
from placewright.execution.pytorch.program import TorchProgram, program_of_graph
from placewright.graph import Graph
from placewright.importers.torch.kernels import kernels_kept
from placewright.importers.torch.ops import describe
from placewright.plans.record import Plan
from placewright.support.errors import InputError


class PlannedAlone:
    """A graph without a backward part, or one with open sizes: planned for each new set of sizes in a call.

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
        self._is_open = is_open(graph)
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
        planner, given = self._planner, self._planner.wishes.given
        graph = _closed(self._graph, arguments) if self._is_open or not _fits(self._graph, arguments) else self._graph
        if not computes(graph):
            return unplanned(graph)
        program = self._program(graph, arguments)
        if given is not None:
            check_given(given, program.graph)
        values = [each for each in arguments if isinstance(each, torch.Tensor)]
        planned = planner.planned(program, program.graph, values, joint=False)
        planned.is_whole = self._is_whole
        by_name = given is not None and not (given.reruns or given.moves)
        part = Part(graph, program, runs_of(graph) if by_name else None)
        planned.likes = [(name, None) for name in part.names]
        planned.parts.append(part)
        planner.run_by(planned, planned.plan)
        part.before = partial(before_run, planner, planned, part, True)
        planner.graphs.append(planned)
        return part

    def _program(self, graph: torch.fx.GraphModule, arguments: Sequence[Any]) -> TorchProgram:
        """The graph as ops, with known names, and with which of its arguments lie on the device."""
        planner = self._planner
        named = planner.names() or self._names
        labels, static, resident = {}, [], []
        for place, (node, given) in enumerate(zip(graph.graph.find_nodes(op="placeholder"), arguments, strict=True)):
            if id(given) in named:
                labels[node.name] = named[id(given)]
            is_tensor = isinstance(given, torch.Tensor)
            static.append(isinstance(given, torch.nn.Parameter) or (place in self._static and is_tensor))
            resident.append(static[-1] or (is_tensor and planner.devices.hold(given)))
        return program_of_graph(
            graph, planner.name, resident, static, labels=labels, sums_in_place=planner.sums_in_place
        )


def computes(module: torch.fx.GraphModule) -> bool:
    """True if a graph has a call that is more than a view."""
    calls = (node for node in module.graph.nodes if node.op == "call_function" and node.target is not operator.getitem)
    return any(describe(node)[0] != "view" for node in calls)


def unplanned(graph: torch.fx.GraphModule) -> Callable[[list[Any]], list[Any]]:
    """A callable that runs a graph without planning; for a graph of views at most."""

    def run(arguments: list[Any]) -> list[Any]:
        with torch.no_grad():
            return list(graph(*arguments))

    return boxed(run)


def before_run(planner: GraphPlanner, graph: PlannedGraph, part: Part, first: bool, given: list[Any]) -> None:
    """Records in the planner that a graph runs.

    Before the first run of a part Inductor compiles the regions it may, or the step is recorded.
    """
    if first:
        planner.begins(graph, part, given)
    if part.is_new:
        part.is_new = False
        if not part.fits(given):
            # In forward a custom op returned something else than its author declared to PyTorch.
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


def check_given(plan: Plan, graph: Graph) -> None:
    """Raises InputError where a plan has other ops than the graph to run, except for updates and an optimizer."""
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


def is_open(graph: Any) -> bool:
    """True if a graph has sizes among its arguments."""
    return any(not isinstance(node.meta["val"], torch.Tensor) for node in graph.graph.find_nodes(op="placeholder"))


def _fits(graph: Any, arguments: Sequence[Any]) -> bool:
    """True if a graph was traced for arguments of these shapes and dtypes.

    A custom op may have returned something else than its author declared to PyTorch.
    """
    placeholders = graph.graph.find_nodes(op="placeholder")
    return all(
        (node.meta["val"].shape, node.meta["val"].dtype) == (given.shape, given.dtype)
        for node, given in zip(placeholders, arguments, strict=True)
        if isinstance(given, torch.Tensor) and isinstance(node.meta["val"], torch.Tensor)
    )


def _closed(graph: Any, inputs: Sequence[Any]) -> Any:
    """A copy of the graph for inputs of exactly these sizes."""
    with kernels_kept(), FakeTensorMode(allow_non_fake_inputs=True) as mode, torch.no_grad():
        fake = [mode.from_tensor(given) if isinstance(given, torch.Tensor) else given for given in inputs]
        return make_fx(graph, tracing_mode="real")(*fake)
