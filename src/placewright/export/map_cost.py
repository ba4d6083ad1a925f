"""The cost of a device map: it places whole modules, so the graph is planned anew under it.

A map says where ops run, not in what order. In the best case they run in an order found anew for its placement, with
transfers that overlap with computing. Hooks that move a module's inputs and then run it, as accelerate's do, run the
captured order; the worst case is one op at a time. Each tensor is moved once to each device that reads it.

With a CPU in the machine, accelerate has a map of its own that computes nothing there: `infer_auto_device_map` fills
the GPU with modules in turn, and the weights of the others come from the host's memory whenever their module runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from placewright.analysis.outcome import again_words, device_words
from placewright.export.map_choice import DeviceChoice, choose_devices
from placewright.export.module_ties import has_record, module_ties
from placewright.export.placement_cost import (
    PlacementCost,
    found_anew,
    one_at_a_time_ns,
    one_device_words,
    over_words,
    placement_cost,
    planned_devices,
    split_by_layers,
    unconstrained_problem,
)
from placewright.graph import Graph
from placewright.plans.record import Plan
from placewright.problem import Problem
from placewright.search.constructive.contiguous_split import ContiguousSplit
from placewright.search.run.result import Solution, measure
from placewright.support.quantities import counted, format_bytes, format_time_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class MapJudgement:
    """A comparison of a plan's map with the plan.

    num_moved, moved_ns: ops that the map puts on another device than the plan, and their time in the plan. own: cost of
    the map, including the memory of parameters that no op reads. other: cost of the map of the plan of other_solver for
    the same machine: `contiguous-split`, whose layers stay whole, or `auto` if the plan is of the former. streamed:
    None where that map is not possible. is_recorded: True if the graph records what else the module holds.
    """

    chosen: DeviceChoice
    is_recorded: bool
    num_moved: int
    moved_ns: int
    own: PlacementCost
    other_solver: str
    other: PlacementCost
    streamed: StreamedMap | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamedMap:
    """accelerate's own map for one GPU and the host's memory. device: the GPU. size_bytes: weights that come from the
    host in each step."""

    device: int
    size_bytes: int
    one_at_a_time_ns: int


def judge_map(plan: Plan, graph: Graph, measured: Path | None = None) -> MapJudgement:
    """Plan the graph anew under the plan's device map.

    graph: the one the plan is for. measured: the file of measured times it was made with. Raises InputError when the
    plan has no modules, or an op of the graph has no time.
    """
    problem = unconstrained_problem(plan, graph, measured)
    ties = module_ties(graph)
    planned = planned_devices(problem, plan, graph)
    is_split = plan.solver == ContiguousSplit().name
    others = found_anew(problem, plan, graph) if is_split else split_by_layers(problem, plan, graph)
    own, other = (choose_devices(problem, graph, plan, ties, placed) for placed in (planned, others))
    elsewhere = np.flatnonzero(own.of_op != planned)
    return MapJudgement(
        chosen=own,
        is_recorded=has_record(graph),
        num_moved=len(elsewhere),
        moved_ns=int(problem.time_ns[problem.lowered.graph_op[elsewhere], planned[elsewhere]].sum()),
        own=_cost(problem, own, plan.seed),
        other_solver="auto" if is_split else ContiguousSplit().name,
        other=_cost(problem, other, plan.seed),
        streamed=_streamed(problem, graph),
    )


def _streamed(problem: Problem, graph: Graph) -> StreamedMap | None:
    """Build accelerate's map for a step of inference on a CPU and a GPU whose weights do not all fit on the GPU
    together with its activations. None for other steps and machines, if they fit, or without room for the largest
    module that comes from the host."""
    machine, lowered = problem.machine, problem.lowered
    kinds = [device.is_cpu for device in machine.devices]
    if sorted(kinds) != [False, True] or graph.metadata.get("mode") == "training":
        return None
    host, gpu = kinds.index(True), kinds.index(False)
    limit = problem.memory_limits_bytes[gpu]
    all_there = np.full(len(lowered.graph_op), gpu, np.int32)
    weights = dict(zip(lowered.graph_resident.tolist(), lowered.resident_bytes.tolist(), strict=True))
    modules: dict[str, list[int]] = {}
    for resident in dict.fromkeys(lowered.residents.tolist()):
        tensor = int(lowered.graph_resident[resident])
        modules.setdefault(graph.tensors[tensor].name.rpartition(".")[0], []).append(tensor)
    sizes = [sum(weights[tensor] for tensor in each) for each in modules.values()]
    order = np.stack([np.arange(len(all_there)), np.full(len(all_there), -1)], axis=1).astype(np.int32)
    activations = measure(problem, Solution(device_of=all_there, order=order)).peak_memory_bytes - sum(sizes)
    if limit is None or activations + sum(sizes) <= limit or activations + max(sizes, default=0) > limit:
        return None
    left, filled = limit - activations - max(sizes), 0
    while left >= sizes[filled]:
        left -= sizes[filled]
        filled += 1
    streamed = [tensor for each in list(modules.values())[filled:] for tensor in each]
    link = machine.links[host][gpu]
    return StreamedMap(
        device=gpu,
        size_bytes=sum(sizes[filled:]),
        one_at_a_time_ns=one_at_a_time_ns(problem, all_there)
        + sum(link.transfer_time_ns(weights[tensor]) for tensor in streamed),
    )


def _cost(problem: Problem, chosen: DeviceChoice, seed: int) -> PlacementCost:
    """Cost a map with the limits reduced by the memory of parameters that no op reads."""
    limits = zip(problem.memory_limits_bytes, chosen.unread_bytes, strict=True)
    left = tuple(None if limit is None else max(0, limit - unread) for limit, unread in limits)
    return placement_cost(replace(problem, memory_limits_bytes=left), chosen.of_op, seed)


def judgement_words(plan: Plan, found: MapJudgement) -> Iterator[str]:
    """Compare the map's cost with the plan's and one device's, in sentences."""
    total = sum(plan.metrics.busy_ns)
    share = f"{found.moved_ns / total:.1%} of the time" if total else "none of the time"
    yield f"{counted(found.num_moved, 'op')} of {len(plan.ops):,} ({share}) run on another device than in the plan"
    own = found.own
    times = f"plan {format_time_ns(plan.metrics.step_time_ns)}; this map {_times(own)}"
    yield f"step time: {times}{one_device_words(plan)}"
    if plan.objective == "peak-memory" or own.anew.bytes_over_limit:
        peaks = [format_bytes(metrics.peak_memory_bytes) for metrics in (plan.metrics, own.anew)]
        yield f"peak memory: plan {peaks[0]}; this map {peaks[1]}{over_words(own.anew)}"
    for paths, device in found.chosen.joined:
        yield f"{_few(paths)} are all on {device_words(plan, device)}, since they share a parameter or a layer"
    for device, size in enumerate(found.chosen.unread_bytes):
        if size:
            yield f"what no op reads takes {format_bytes(size)} more on {device_words(plan, device)}"


def objections(plan: Plan, found: MapJudgement) -> Iterator[str]:
    """List the objections to using the map at all."""
    own, one = found.own, plan.one_device
    if own.anew.bytes_over_limit and not plan.metrics.bytes_over_limit:
        yield f"this map does not fit, unlike the plan: {format_bytes(own.anew.bytes_over_limit)} over the limits"
    if not found.is_recorded and "" not in found.chosen.devices:
        yield (
            "the graph does not tell what its module holds beside it: the map may lack parameters that no op reads, "
            "and other names of the rest"
        )
    if _is_worth_telling(plan, found):
        told = f"{_times(found.other)}{over_words(found.other.anew)}"
        yield f"a plan made with `--solver {found.other_solver}` has a better map: {told}"
    streamed = found.streamed
    if streamed is not None and (own.anew.bytes_over_limit or streamed.one_at_a_time_ns < own.one_at_a_time_ns):
        takes = f"takes {format_time_ns(streamed.one_at_a_time_ns)} with all computed on"
        yield (
            f"the map of accelerate's `infer_auto_device_map` {takes} {device_words(plan, streamed.device)} and "
            f"{format_bytes(streamed.size_bytes)} of weights brought from the host as their modules run"
        )
    if one is None or one.metrics.bytes_over_limit:
        return
    name = f"{device_words(plan, one.device)} alone{again_words(one)}"
    if own.anew.fitness(plan.objective)[:2] >= one.metrics.fitness(plan.objective)[:2]:
        yield f"this map is no better than {name}"
    elif own.one_at_a_time_ns > one.metrics.step_time_ns:
        yield f"run one op at a time, as accelerate's hooks run it, this map is slower than {name}"


def _few(paths: Sequence[str]) -> str:
    return ", ".join(paths[:3]) + (f" and {len(paths) - 3:,} more" if len(paths) > 3 else "")


def _is_worth_telling(plan: Plan, found: MapJudgement) -> bool:
    """True if the map of the other solver beats the plan's, planned anew or one op at a time, and one device too."""
    own, other, one = found.own, found.other, plan.one_device
    reached = other.anew.fitness(plan.objective)[:2]
    if one is not None and one.metrics.fitness(plan.objective)[:2] <= reached:
        return False
    sooner = reached[0] <= own.anew.bytes_over_limit and other.one_at_a_time_ns < own.one_at_a_time_ns
    return reached < own.anew.fitness(plan.objective)[:2] or sooner


def _times(cost: PlacementCost) -> str:
    anew, in_turn = format_time_ns(cost.anew.step_time_ns), format_time_ns(cost.one_at_a_time_ns)
    return f"{anew} planned anew, {in_turn} one op at a time as hooks run it"
