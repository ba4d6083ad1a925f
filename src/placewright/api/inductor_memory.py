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
from torch._functorch.compile_utils import fx_graph_cse
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch._inductor.custom_graph_pass import CustomPartitionerFn

from placewright.api.dynamo import RefusedError
from placewright.api.functions import plan as make_plan
from placewright.api.questions import Plan
from placewright.costs.fused import with_fused_times
from placewright.execution.pytorch.inductor_memory import JointGraph
from placewright.machine import Machine
from placewright.support.errors import InputError
from placewright.support.quantities import format_bytes
from placewright.version import VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedGraph:
    """One graph of forward and backward that Inductor compiled.

    Attributes
    ----------
    plan
        Its plan; without reruns where the limit leaves everything as it is.
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

    def __init__(self, machine: Machine, fused_share: float, options: Mapping[str, Any]) -> None:
        self.graphs: list[FittedGraph] = []
        self._machine = machine
        self._fused_share = fused_share
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
        told = [VERSION, torch.__version__, self._machine, self._fused_share, sorted(self._options.items())]
        return hashlib.sha256(repr(told).encode()).hexdigest()

    def _parted(
        self, gm: fx.GraphModule, joint_inputs: Sequence[object], kwargs: Mapping[str, Any]
    ) -> tuple[fx.GraphModule, fx.GraphModule]:
        gm.graph.eliminate_dead_code()
        gm.graph = fx_graph_cse(gm.graph)
        joint = JointGraph(gm, kwargs["num_fwd_outputs"])
        graph = with_fused_times(joint.graph, self._machine, self._fused_share)
        plan = make_plan(graph, self._machine, keep=joint.once, **self._options)
        if plan.status == "infeasible":
            limit, least = plan.memory_limits_bytes[0] or 0, plan.peak_bytes[0]
            raise InputError(
                f"no plan was found for a training step within {format_bytes(limit)}; the one nearest to it takes "
                f"{format_bytes(least)}"
            )
        if plan.reruns:
            parts = joint.parted(plan.reruns, kwargs.get("static_lifetime_input_indices") or ())
        else:
            parts = min_cut_rematerialization_partition(gm, joint_inputs, **kwargs)
        self.graphs.append(FittedGraph(plan=plan, saved_bytes=_saved_bytes(parts[0], kwargs["num_fwd_outputs"])))
        return parts


def _saved_bytes(forward: fx.GraphModule, num_outputs: int) -> int:
    """What forward returns behind its results, other than its arguments."""
    saved = forward.graph.output_node().args[0][num_outputs:]
    return sum(node.meta["val"].untyped_storage().nbytes() for node in dict.fromkeys(saved) if node.op != "placeholder")
