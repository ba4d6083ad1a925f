"""A partitioner for `torch.compile` with Inductor: forward and backward within a memory limit.

Imported only where torch is known to be present.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import fx
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch._inductor.custom_graph_pass import CustomPartitionerFn

from placewright.api.dynamo import RefusedError
from placewright.api.functions import plan as make_plan
from placewright.api.nested_regions import Regions
from placewright.api.questions import Plan
from placewright.costs.fused import with_fused_times
from placewright.execution.pytorch.joint import JointGraph
from placewright.execution.pytorch.lowered_memory import LoweredStep
from placewright.execution.pytorch.places import first_line
from placewright.execution.pytorch.saved import Policies, SavingGraph, kept_bytes, saved_bytes
from placewright.graph import Graph
from placewright.machine import Machine
from placewright.rematerialization.reruns import rewritten
from placewright.support.errors import InputError
from placewright.support.quantities import format_bytes
from placewright.version import VERSION

#: How many plans are lowered for one graph at the most. The least by which a plan that is over the limit is followed by
#: a lower one, and the room from which on a higher one is tried, as shares of the limit.
_MOST_TRIED, _STEP, _SPARE = 6, 0.01, 0.03


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
    peak_bytes
        What the step holds at the most by the program that Inductor writes for these parts, parameters and arguments
        included.
    num_tried
        How many partitions were lowered until one kept the limit.
    regions
        A plan for each sort of nested region in it, which is an op of the graph.
    """

    plan: Plan
    saved_bytes: int
    peak_bytes: int
    num_tried: int = 1
    regions: tuple[Plan, ...] = ()


class MemoryPartitioner(CustomPartitionerFn):
    """Parts each joint graph as a plan says that keeps a memory limit.

    beside: how a refusal says what is in use beside the graph. runs: how often it runs before its backward does.
    gradient_bytes: what comes of each further run when what it kept goes.

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
        beside: str = "",
        runs: int = 1,
        gradient_bytes: int = 0,
    ) -> None:
        self.graphs: list[FittedGraph] = []
        self._machine = machine
        self._limit = memory_limit
        self._fused_share = fused_share
        self._keep = tuple(keep)
        self._options = dict(options)
        self._beside = beside
        self._runs = runs
        self._gradient_bytes = gradient_bytes
        self.regions = Regions(memory_limit)

    def __call__(
        self, gm: fx.GraphModule, joint_inputs: Sequence[object], **kwargs: Any
    ) -> tuple[fx.GraphModule, fx.GraphModule]:
        """Part one joint graph."""
        try:
            return self._parted(gm, joint_inputs, kwargs)
        except InputError as error:
            raise RefusedError(error) from error
        except Exception as error:
            # PyTorch takes some of these for a graph break, and would run the module without a limit.
            told = f"{type(error).__name__}: {first_line(error)}"
            raise RefusedError(InputError(f"what a graph holds under Inductor cannot be told: {told}")) from error

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
        policies = Policies(gm)
        own: _Parts = min_cut_rematerialization_partition(gm, joint_inputs, **kwargs)
        num_outputs, static = kwargs["num_fwd_outputs"], kwargs.get("static_lifetime_input_indices") or ()
        joint = JointGraph(gm, num_outputs, own[0])
        graph = with_fused_times(joint.graph, self._machine, self._fused_share)
        keep, lowered = (*joint.once, *policies.kept, *self._keep), LoweredStep(num_outputs)
        own_plan = self._plan(rewritten(graph, joint.run_again_in(own[1])).graph)
        saving = SavingGraph(joint=joint, graph=graph, peak_bytes=own_plan.peak_bytes[0], num_outputs=num_outputs)

        def planned(graph: Graph, limit: int) -> Plan:
            return self._plan(graph, memory_limit=limit, keep=keep, **self._options)

        # PyTorch hands over the graph of a nested region without arguments.
        if not joint_inputs:
            return own if policies.is_fixed else self.regions.parted(own, own_plan, saving, planned)

        def fitted(plan: Plan, parts: _Parts) -> _Fitted:
            kept = kept_bytes(parts[0], num_outputs, static)
            others = (self._runs - 1) * max(kept, self._gradient_bytes)
            return _Fitted(plan, parts, plan.peak_bytes[0] + others, lowered.peak_bytes(*parts) + others)

        def within(limit: int) -> Plan:
            if self._runs == 1:
                return planned(graph, limit)
            saved = (limit - saving.peak_bytes) // (self._runs - 1)
            saved -= kept_bytes(own[0], num_outputs, static) - saved_bytes(own[0], num_outputs)
            peak = min(limit, saving.peak_bytes)
            return planned(saving.saving_at_most(saved, peak), peak)

        found = fitted(own_plan, own)
        self.regions.settle(found.peak_bytes, saved_bytes(own[0], num_outputs))
        tried = [found]
        if found.peak_bytes > self._limit:
            policies.check(format_bytes(self._limit))
            tried = _tried(
                self._limit, within, lambda plan: fitted(plan, joint.parted(saving.reruns(plan.reruns), static))
            )
            found = self._chosen([found, *tried], policies.advice)
        self.graphs.append(
            FittedGraph(
                plan=found.plan,
                saved_bytes=saved_bytes(found.parts[0], num_outputs),
                peak_bytes=found.peak_bytes,
                num_tried=len(tried),
                regions=tuple(self.regions.plans),
            )
        )
        return found.parts

    def _chosen(self, tried: Sequence[_Fitted], advice: str) -> _Fitted:
        """The fastest that keeps the limit."""
        fits = [each for each in tried if each.peak_bytes <= self._limit]
        if not fits:
            nearest = min(each.peak_bytes for each in tried)
            raise InputError(
                f"no plan was found for a training step within {format_bytes(self._limit)}; the one nearest to it "
                f"takes {format_bytes(nearest)}{self._beside}{advice}"
            )
        return min(fits, key=lambda each: each.plan.step_time_ns)

    def _plan(self, graph: Graph, **options: Any) -> Plan:
        return make_plan(graph, self._machine, solver="input-order", **options)


_Parts = tuple[fx.GraphModule, fx.GraphModule]


class _Fitted(NamedTuple):
    """A plan, its parts, and what they hold at the most, by the plan and when Inductor compiles them."""

    plan: Plan
    parts: _Parts
    planned_bytes: int
    peak_bytes: int


def _tried(limit: int, planned: Callable[[int], Plan], lowered: Callable[[Plan], _Fitted]) -> list[_Fitted]:
    """Plans near a limit, by what they take when Inductor compiles them, which is not what is planned.

    While none keeps the limit, each is asked for as much less as the nearest is over. Once one does, with room to
    spare, others are asked for between it and those that do not.
    planned: the plan for a limit.
    """
    tried: list[_Fitted] = []
    asked, found_none, step = limit, 0, int(_STEP * limit)
    while len(tried) < _MOST_TRIED:
        plan = planned(asked)
        if plan.status == "infeasible":
            found_none = asked
        elif any(plan.reruns == each.plan.reruns for each in tried):
            break
        else:
            tried.append(lowered(plan))
        within = [each for each in tried if each.peak_bytes <= limit]
        beyond = [each.planned_bytes for each in tried if each.peak_bytes > limit]
        if within:
            lower = max(each.planned_bytes for each in within)
            spare = limit - max(each.peak_bytes for each in within)
            upper = min(beyond, default=lower + 2 * spare)
            if spare < _SPARE * limit:
                break
            asked = (lower + upper) // 2
        elif beyond:
            upper = min(beyond)
            over = min(each.peak_bytes for each in tried) - limit
            asked = max(upper - max(over, step), (found_none + upper) // 2)
        else:
            break
        if upper - asked < step:
            break
    return tried
