"""A partitioner for `torch.compile` with Inductor: forward and backward within a memory limit.

Imported only where torch is known to be present.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch._inductor.compile_fx import compile_fx_inner
from torch._inductor.custom_graph_pass import CustomPartitionerFn

from placewright.api.dynamo import RefusedError
from placewright.api.functions import plan as make_plan
from placewright.api.inductor_trials import Fitted, Parts, Trials, tried_near
from placewright.api.nested_regions import Regions
from placewright.api.questions import Plan
from placewright.api.splits import split_within, with_split
from placewright.costs.fused import with_fused_times
from placewright.execution.pytorch.inductor_ways import WAYS, Way
from placewright.execution.pytorch.joint import JointGraph, is_tangent
from placewright.execution.pytorch.open_sizes import Sizes
from placewright.execution.pytorch.places import first_line
from placewright.execution.pytorch.saved import Policies, SavingGraph, kept, num_bytes, saved
from placewright.graph import Graph
from placewright.machine import Machine
from placewright.rematerialization.reruns import rewritten
from placewright.support.errors import InputError
from placewright.support.quantities import format_bytes
from placewright.version import VERSION

_LOGGER = logging.getLogger(__name__)

#: In a region, which PyTorch runs for each of its blocks, and where sizes are open, nothing is moved.
_NO_MOVES = ("move:*",)


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedGraph:
    """One graph of forward and backward that Inductor compiled.

    Attributes
    ----------
    plan
        Its plan. Where PyTorch's own choice keeps the limit, that is the plan: the ops it computes again are ops of
        the graph, and there are no reruns.
    saved_bytes
        The bytes that forward leaves for backward, without its arguments.
    peak_bytes
        The most memory that the step holds by the program that Inductor writes for these parts, including parameters
        and arguments.
    num_tried
        How many partitions were lowered until one kept the limit.

    regions
        A plan for each sort of nested region in it, which is an op of the graph.
    saved_with, peak_with
        The same bytes for other sizes, where the graph has open ones; otherwise for the sizes it was planned for.
    """

    plan: Plan
    saved_bytes: int
    peak_bytes: int
    num_tried: int = 1
    regions: tuple[Plan, ...] = ()
    saved_with: Callable[[Sizes], int] = field(repr=False, compare=False)
    peak_with: Callable[[Sizes], int] = field(repr=False, compare=False)


class MemoryPartitioner(CustomPartitionerFn):
    """Parts each joint graph as a plan says that keeps a memory limit.

    beside: the words with which a refusal says what else is in use. runs: how often the graph runs before its backward
    does. gradient_bytes: gradients of each further run, which appear when what it kept is freed. largest: the largest
    sizes seen, where sizes are open; a graph is planned for them, or for the sizes of the call where no plan keeps the
    limit with all of them. steps: numbers of parameters that are stepped in backward, by the place of the argument.
    split: whether stretches may run in parts.

    Attributes
    ----------
    graphs
        A record per graph, in the order of compiling; empty where PyTorch took a graph from its cache.
    """

    def __init__(
        self,
        machine: Machine,
        memory_limit: int,
        fused_share: float,
        keep: Sequence[str],
        options: Mapping[str, Any],
        beside: str = "",
        *,
        runs: int = 1,
        gradient_bytes: int = 0,
        largest: Mapping[str, int] | None = None,
        steps: Mapping[int, int] | None = None,
        split: bool = False,
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
        self._largest = largest or {}
        self._steps = steps or {}
        self._split = split
        self.regions = Regions(memory_limit)
        self._way = WAYS[0]

    def inner_compile(self, *args: Any, **options: Any) -> Any:
        """Compiles a part in the way for which the limit holds. Goes to `compile_fx` together with the partitioner."""
        with self._way.chosen():
            return compile_fx_inner(*args, **options)

    def __call__(
        self, gm: fx.GraphModule, joint_inputs: Sequence[object], **kwargs: Any
    ) -> tuple[fx.GraphModule, fx.GraphModule]:
        """Part one joint graph."""
        try:
            policies = Policies(gm)
            own: Parts = min_cut_rematerialization_partition(gm, joint_inputs, **kwargs)
            seen = Sizes.seen(node.meta.get("val") for node in gm.graph.find_nodes(op="placeholder"))
            if largest := seen.at_least(self._largest):
                try:
                    return self._parted(gm, own, policies, not joint_inputs, kwargs, largest)
                except InputError:
                    _LOGGER.info("no plan keeps the limit with all of the largest sizes")
            # PyTorch hands over the graph of a nested region without arguments.
            is_region = not joint_inputs
            if self._split and not (is_region or seen.are_open or policies.is_fixed):
                return self._in_parts_or_whole(gm, own, policies, kwargs, seen)
            return self._parted(gm, own, policies, is_region, kwargs, seen)
        except InputError as error:
            raise RefusedError(error) from error
        except Exception as error:
            # PyTorch takes some of these for a graph break, and would run the module without a limit.
            told = f"{type(error).__name__}: {first_line(error)}"
            raise RefusedError(InputError(f"what a graph holds under Inductor cannot be told: {told}")) from error

    def __deepcopy__(self, _: Any) -> MemoryPartitioner:
        """Returns itself: PyTorch copies its settings, and fake tensors are not to be copied."""
        return self

    def __reduce__(self) -> Any:
        """Reduces it to its uuid, for the key of a cache that PyTorch's settings are part of."""
        return str, (self.uuid(),)

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
            self._split,
        ]
        return hashlib.sha256(repr(told).encode()).hexdigest()

    def _in_parts_or_whole(
        self, gm: fx.GraphModule, own: Parts, policies: Policies, kwargs: Mapping[str, Any], sizes: Sizes
    ) -> Parts:
        """The parts of the faster plan: with each op whole, or with a stretch in parts."""
        found: list[tuple[FittedGraph, Way, Parts]] = []
        refused: list[InputError] = []

        def tried(module: fx.GraphModule, parts: Parts) -> None:
            try:
                parts = self._parted(module, parts, policies, False, kwargs, sizes)
            except InputError as error:
                refused.append(error)
            else:
                found.append((self.graphs.pop(), self._way, parts))

        tried(gm, own)
        if not found or found[0][0].plan.reruns or found[0][0].plan.moves:
            count, static = kwargs["num_fwd_outputs"], kwargs.get("static_lifetime_input_indices") or ()
            given = [
                node.name
                for place, node in enumerate(gm.graph.find_nodes(op="placeholder"))
                if place not in static and not is_tangent(node)
            ]

            def read(module: fx.GraphModule) -> Graph:
                graph = JointGraph(module, count, None, sizes=sizes).giving_away(self._steps)
                return with_fused_times(graph, self._machine, self._fused_share)

            def planned(graph: Graph) -> Plan:
                return self._plan(graph, memory_limit=self._limit, keep=self._keep, **self._options)

            if (module := split_within(gm, given, self._limit, read, planned)) is not None:
                tried(module, JointGraph(module, count, None, sizes=sizes).parted((), static))
        if not found:
            raise refused[-1]
        graph, self._way, parts = min(found, key=lambda each: each[0].plan.step_time_ns)
        self.graphs.append(graph)
        return parts

    def _parted(
        self,
        gm: fx.GraphModule,
        own: Parts,
        policies: Policies,
        is_region: bool,
        kwargs: Mapping[str, Any],
        sizes: Sizes,
    ) -> Parts:
        num_outputs, static = kwargs["num_fwd_outputs"], kwargs.get("static_lifetime_input_indices") or ()
        joint = JointGraph(gm, num_outputs, own[0], sizes=sizes)
        graph = with_fused_times(joint.giving_away(self._steps), self._machine, self._fused_share)
        once = (f"recompute:{name}" for name in joint.once)
        fixed = _NO_MOVES if is_region or sizes.are_open else ()
        keep = (*once, *joint.collectives, *policies.kept, *self._keep, *fixed)
        own_plan = self._plan(rewritten(graph, joint.run_again_in(own[1])).graph)
        saving = SavingGraph(
            joint=joint, graph=graph, peak_bytes=own_plan.peak_bytes[0], num_outputs=num_outputs, sizes=sizes
        )

        def planned(graph: Graph, limit: int) -> Plan:
            return self._plan(graph, memory_limit=limit, keep=keep, **self._options)

        if is_region:
            return own if policies.is_fixed else self.regions.parted(own, own_plan, saving, planned)
        trials = Trials(saving, static, self._limit, self._steps, self._runs, self._gradient_bytes)

        def within(limit: int) -> Plan:
            if self._runs == 1:
                return planned(graph, limit)
            room = (limit - saving.peak_bytes) // (self._runs - 1)
            room -= num_bytes(kept(own[0], num_outputs, static), sizes) - num_bytes(saved(own[0], num_outputs), sizes)
            peak = min(limit, saving.peak_bytes)
            return planned(saving.saving_at_most(room, peak), peak)

        # Graphs with regions are made again with other regions, and not with other plans.
        found = trials.nearest(own_plan, own) if self.regions.plans else trials.fitted(own_plan, own, WAYS[0])
        self.regions.settle(found.peak_bytes, num_bytes(saved(own[0], num_outputs), sizes))
        num_tried = 1
        if found.peak_bytes > self._limit:
            policies.check(format_bytes(self._limit))
            tried = tried_near(self._limit, within, lambda plan: trials.nearest(plan, saving.parted(plan, static)))
            may_split = not (self._split or sizes.are_open or policies.is_fixed)
            advice = f"{policies.advice}{'; split=True may run ops in parts' if may_split else ''}"
            found, num_tried = self._chosen([found, *tried], advice), len(tried)
        self._way = found.way
        found = found._replace(plan=with_split(found.plan, gm))
        self.graphs.append(self._record(found, num_outputs, sizes, trials.further_bytes, num_tried))
        return found.parts

    def _record(
        self,
        found: Fitted,
        num_outputs: int,
        sizes: Sizes,
        further_bytes: Callable[[Parts, Sizes], int],
        num_tried: int,
    ) -> FittedGraph:
        def saved_with(sizes: Sizes) -> int:
            return num_bytes(saved(found.parts[0], num_outputs), sizes)

        return FittedGraph(
            plan=found.plan,
            saved_bytes=saved_with(sizes),
            peak_bytes=found.peak_bytes,
            num_tried=num_tried,
            regions=tuple(self.regions.plans),
            saved_with=saved_with,
            peak_with=lambda sizes: found.lowered.peak_bytes(sizes) + further_bytes(found.parts, sizes),
        )

    def _chosen(self, tried: Sequence[Fitted], advice: str) -> Fitted:
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
