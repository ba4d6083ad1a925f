"""A pass for `torch.compile` with Inductor: the nodes of its graphs in the order of a plan.

Imported only where torch is known to be present.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch._inductor.custom_graph_pass import CustomGraphPass

from placewright.api.functions import plan as make_plan
from placewright.api.questions import Plan
from placewright.execution.pytorch.inductor_order import ranks_by_name, ranks_by_origin, reorder
from placewright.importers.torch.capture import capture_graph
from placewright.importers.torch.graph import translate
from placewright.plans.record import Plan as PlanRecord
from placewright.support.errors import InputError
from placewright.version import VERSION

_LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderedGraph:
    """One graph that Inductor compiled.

    Attributes
    ----------
    num_nodes
        How many calls it has.
    num_planned
        How many of them stand for an op of the plan; the others stand right before what reads them.
    plan
        Whose order it has; None where it was left as it was.
    """

    num_nodes: int
    num_planned: int
    plan: Plan | None


class InductorPass(CustomGraphPass):
    """Brings each graph into the order of a plan.

    Attributes
    ----------
    graphs
        What was done, a record per graph in the order of compiling; empty where Inductor took a graph from its cache.
    """

    def __init__(self, plan: PlanRecord | None, devices: Any, options: Mapping[str, Any]) -> None:
        self.graphs: list[OrderedGraph] = []
        self._plan = plan
        self._devices = devices
        self._options = dict(options)

    def __call__(self, graph: fx.Graph) -> None:
        """Reorder one graph in place."""
        calls = [node for node in graph.nodes if node.op == "call_function"]
        plan = self._plan or self._planned(graph)
        ranks: Mapping[fx.Node, int] = {}
        if plan is not None:
            ranks = (ranks_by_name if self._plan is None else ranks_by_origin)(graph, plan)
        if ranks:
            reorder(graph, ranks)
        elif plan is not None and calls:
            _LOGGER.warning("a graph of Inductor has no layer of the plan of '%s' and keeps its order", plan.graph_name)
        self.graphs.append(
            OrderedGraph(num_nodes=len(calls), num_planned=len(ranks), plan=None if plan is None else Plan.of(plan))
        )

    def uuid(self) -> str:
        """Tell compiled graphs of different passes apart in Inductor's cache."""
        told = [VERSION, torch.__version__, self._devices, sorted(self._options.items())]
        if self._plan is not None:
            told += [[op.name, op.module, op.phase, op.source, op.position] for op in self._plan.ops]
        return hashlib.sha256(repr(told).encode()).hexdigest()

    def _planned(self, graph: fx.Graph) -> PlanRecord | None:
        """A plan of this very graph; None, with a warning, where it cannot be planned."""
        try:
            _check(graph)
            stays = [node.name.startswith(("primals_", "arg")) for node in graph.nodes if node.op == "placeholder"]
            read, _ = translate(capture_graph(graph, stays), "inductor", None)
            return make_plan(read, self._devices, **self._options)
        except InputError as error:
            _LOGGER.warning("a graph of Inductor keeps its order, since it cannot be planned: %s", error)
            return None


def _check(graph: fx.Graph) -> None:
    """Raises InputError where the size of something is open, or nobody says what a node is."""
    results = [node for node in graph.output_node().args[0] if node is not None]
    if not any(isinstance(node, fx.Node) for node in results):
        raise InputError("it returns no tensor")
    for node in graph.nodes:
        if node.op == "placeholder" and not isinstance(node.meta.get("val"), torch.Tensor):
            raise InputError(f"its input {node.name} is no tensor; torch.compile(..., dynamic=False) plans per shape")
        if node.op == "call_function" and "val" not in node.meta:
            raise InputError(f"its node {node.name} does not say what it makes")
    if not all(isinstance(node, fx.Node) for node in results):
        raise InputError("it returns something that is no tensor")
