"""A partitioner for `torch.compile` with Inductor: forward and backward within a memory limit.

Imported only where torch is known to be present.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import fx
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch._inductor.compile_fx import compile_fx_inner
from torch._inductor.custom_graph_pass import CustomPartitionerFn

from placewright.api.dynamo import RefusedError
from placewright.api.functions import plan as make_plan
from placewright.api.nested_regions import Regions
from placewright.api.questions import Plan
from placewright.api.splits import split_within, with_split
from placewright.costs.fused import with_fused_times
from placewright.execution.pytorch.graph_steps import with_steps
from placewright.execution.pytorch.inductor_ways import WAYS, Way
from placewright.execution.pytorch.joint import JointGraph, is_tangent
from placewright.execution.pytorch.lowered_memory import LoweredStep
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

#: How many plans are lowered for one graph at the most. The least by which a plan that is over the limit is followed by
#: a lower one, and the room from which on a higher one is tried, as shares of the limit.
_MOST_TRIED, _STEP, _SPARE = 6, 0.01, 0.03
#: By how much of the limit the plan nearest to it may be over for others to be tried, where none is planned within it.
_FAR = 0.5
#: How much more a way of compiling may take than others for one plan to be tried for the next.
_WORSE = 1.15
#: Nothing is moved in a region, which PyTorch runs for each of its blocks, nor where sizes are open.
_NO_MOVES = ("move:*",)


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
    saved_with, peak_with
        The same bytes for other sizes, where the graph has open ones; otherwise they are for those that it was planned
        for.
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

    beside: how a refusal says what is in use beside the graph. runs: how often it runs before its backward does.
    gradient_bytes: what comes of each further run when what it kept goes. largest: the largest sizes seen, where sizes
    are open, for which a graph is planned; where no plan keeps the limit with all of them, it is planned for those of
    the call. steps: numbers of parameters that are stepped in backward, by the place of the argument. split: whether
    stretches may run in parts.

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
        """Compiles a part in the way for which the limit holds. Goes to `compile_fx` beside the partitioner."""
        with self._way.chosen():
            return compile_fx_inner(*args, **options)

    def __call__(
        self, gm: fx.GraphModule, joint_inputs: Sequence[object], **kwargs: Any
    ) -> tuple[fx.GraphModule, fx.GraphModule]:
        """Part one joint graph."""
        try:
            policies = Policies(gm)
            own: _Parts = min_cut_rematerialization_partition(gm, joint_inputs, **kwargs)
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
        """Itself: PyTorch copies its settings, and fake tensors are not to be copied."""
        return self

    def __reduce__(self) -> Any:
        """What it is in the key of a cache, of which PyTorch's settings are a part."""
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
        self, gm: fx.GraphModule, own: _Parts, policies: Policies, kwargs: Mapping[str, Any], sizes: Sizes
    ) -> _Parts:
        """The fastest of plans with each op whole and with a stretch in parts."""
        found: list[tuple[FittedGraph, Way, _Parts]] = []
        refused: list[InputError] = []

        def tried(module: fx.GraphModule, parts: _Parts) -> None:
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
        own: _Parts,
        policies: Policies,
        is_region: bool,
        kwargs: Mapping[str, Any],
        sizes: Sizes,
    ) -> _Parts:
        num_outputs, static = kwargs["num_fwd_outputs"], kwargs.get("static_lifetime_input_indices") or ()
        joint = JointGraph(gm, num_outputs, own[0], sizes=sizes)
        graph = with_fused_times(joint.giving_away(self._steps), self._machine, self._fused_share)
        workspaces, ways = dict[Any, int](), list(WAYS)
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

        def others(parts: _Parts, sizes: Sizes) -> int:
            """What further runs keep."""
            each = num_bytes(kept(parts[0], num_outputs, static), sizes)
            return (self._runs - 1) * max(each, self._gradient_bytes)

        def fitted(plan: Plan, parts: _Parts, way: Way) -> _Fitted:
            parts = with_steps(*parts, self._steps)
            with way.chosen():
                lowered, more = LoweredStep(*parts, num_outputs, sizes, workspaces), others(parts, sizes)
            planned_bytes = plan.peak_bytes[0] + more
            return _Fitted(plan, parts, way, lowered, planned_bytes, lowered.peak_bytes(sizes) + more)

        def within(limit: int) -> Plan:
            if self._runs == 1:
                return planned(graph, limit)
            room = (limit - saving.peak_bytes) // (self._runs - 1)
            room -= num_bytes(kept(own[0], num_outputs, static), sizes) - num_bytes(saved(own[0], num_outputs), sizes)
            peak = min(limit, saving.peak_bytes)
            return planned(saving.saving_at_most(room, peak), peak)

        def nearest(plan: Plan, parts: _Parts) -> _Fitted:
            """In the first way that keeps the limit, or else in the best of them."""
            tried = list[_Fitted]()
            for way in ways:
                tried.append(fitted(plan, parts, way))
                if tried[-1].peak_bytes <= self._limit:
                    return tried[-1]
            least = min(each.peak_bytes for each in tried)
            ways[:] = [each.way for each in tried if each.peak_bytes <= _WORSE * least]
            return min(tried, key=lambda each: each.peak_bytes)

        # Graphs with regions are made again with other regions, and not with other plans.
        found = nearest(own_plan, own) if self.regions.plans else fitted(own_plan, own, WAYS[0])
        self.regions.settle(found.peak_bytes, num_bytes(saved(own[0], num_outputs), sizes))
        tried = [found]
        if found.peak_bytes > self._limit:
            policies.check(format_bytes(self._limit))
            tried = _tried(self._limit, within, lambda plan: nearest(plan, saving.parted(plan, static)))
            found = self._chosen([found, *tried], policies.advice)
        self._way = found.way
        chosen = found

        def saved_with(sizes: Sizes) -> int:
            return num_bytes(saved(chosen.parts[0], num_outputs), sizes)

        self.graphs.append(
            FittedGraph(
                plan=with_split(found.plan, gm),
                saved_bytes=saved_with(sizes),
                peak_bytes=found.peak_bytes,
                num_tried=len(tried),
                regions=tuple(self.regions.plans),
                saved_with=saved_with,
                peak_with=lambda sizes: chosen.lowered.peak_bytes(sizes) + others(chosen.parts, sizes),
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
    """A plan, its parts, and what they hold at the most, by the plan and as Inductor compiles them."""

    plan: Plan
    parts: _Parts
    way: Way
    lowered: LoweredStep
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
            if not tried:
                # It may take less than is planned, and else says what limit is near.
                tried.append(lowered(plan))
        elif any((plan.reruns, plan.moves) == (each.plan.reruns, each.plan.moves) for each in tried):
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
            if found_none and over > _FAR * limit:
                break
            asked = max(upper - max(over, step), (found_none + upper) // 2)
        else:
            break
        if upper - asked < step:
            break
    return tried
