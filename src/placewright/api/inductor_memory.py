"""A partitioner for `torch.compile` with Inductor: forward and backward within a memory limit.

Imported only where torch is known to be present.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch._inductor.custom_graph_pass import CustomPartitionerFn

from placewright.api.dynamo import RefusedError
from placewright.api.functions import plan as make_plan
from placewright.api.questions import Plan
from placewright.costs.fused import with_fused_times
from placewright.execution.pytorch.joint import JointGraph
from placewright.graph import Graph
from placewright.machine import Machine
from placewright.rematerialization.reruns import rewritten
from placewright.support.errors import InputError
from placewright.support.quantities import format_bytes
from placewright.version import VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedGraph:
    """One graph of forward and backward that Inductor compiled.

    Attributes
    ----------
    plan
        Its plan. Where PyTorch's own choice keeps the limit that is the plan: what it computes again are ops of the
        graph, and there are no reruns.
    saved_bytes
        What forward leaves for backward, beside its arguments.
    """

    plan: Plan
    saved_bytes: int


class MemoryPartitioner(CustomPartitionerFn):
    """Parts each joint graph as a plan says that keeps a memory limit.

    Attributes
    ----------
    graphs
        What was done, a record per graph in the order of compiling; empty where PyTorch took a graph from its cache.
    """

    def __init__(
        self,
        machine: Machine,
        memory_limit: int,
        fused_share: float,
        keep: Sequence[str],
        options: Mapping[str, Any],
    ) -> None:
        self.graphs: list[FittedGraph] = []
        self._machine = machine
        self._limit = memory_limit
        self._fused_share = fused_share
        self._keep = tuple(keep)
        self._options = dict(options)

    def __call__(
        self, gm: fx.GraphModule, joint_inputs: Sequence[object], **kwargs: Any
    ) -> tuple[fx.GraphModule, fx.GraphModule]:
        """Part one joint graph."""
        try:
            return self._parted(gm, joint_inputs, kwargs)
        except InputError as error:
            raise RefusedError(error) from error

    def uuid(self) -> str:
        """Tell compiled graphs of different limits apart in PyTorch's caches."""
        told = [
            VERSION,
            torch.__version__,
            self._machine,
            self._limit,
            self._fused_share,
            self._keep,
            sorted(self._options.items()),
        ]
        return hashlib.sha256(repr(told).encode()).hexdigest()

    def _parted(
        self, gm: fx.GraphModule, joint_inputs: Sequence[object], kwargs: Mapping[str, Any]
    ) -> tuple[fx.GraphModule, fx.GraphModule]:
        parts: tuple[fx.GraphModule, fx.GraphModule] = min_cut_rematerialization_partition(gm, joint_inputs, **kwargs)
        joint = JointGraph(gm, kwargs["num_fwd_outputs"], parts[0])
        graph = with_fused_times(joint.graph, self._machine, self._fused_share)
        plan = self._plan(rewritten(graph, joint.run_again_in(parts[1])).graph)
        if plan.peak_bytes[0] > self._limit:
            plan = self._plan(graph, memory_limit=self._limit, keep=(*joint.once, *self._keep), **self._options)
            if plan.status == "infeasible":
                raise InputError(
                    f"no plan was found for a training step within {format_bytes(self._limit)}; the one nearest to it "
                    f"takes {format_bytes(plan.peak_bytes[0])}"
                )
            parts = joint.parted(plan.reruns, kwargs.get("static_lifetime_input_indices") or ())
        self.graphs.append(FittedGraph(plan=plan, saved_bytes=_saved_bytes(parts[0], kwargs["num_fwd_outputs"])))
        return parts

    def _plan(self, graph: Graph, **options: Any) -> Plan:
        return make_plan(graph, self._machine, solver="input-order", **options)


def _saved_bytes(forward: fx.GraphModule, num_outputs: int) -> int:
    """What forward returns behind its results, other than its arguments."""
    saved = forward.graph.output_node().args[0][num_outputs:]
    return sum(node.meta["val"].untyped_storage().nbytes() for node in dict.fromkeys(saved) if node.op != "placeholder")
