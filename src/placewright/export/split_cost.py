"""The cost of pipeline stages, compared with their plan and with one device."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from placewright.analysis.outcome import again_words, device_words
from placewright.export.pipelining import (
    Split,
    find_split,
    inputs_in_later_stages,
    parameters_in_several_stages,
    placed_by,
    stage_of_ops,
)
from placewright.export.placement_cost import (
    PlacementCost,
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
from placewright.support.errors import InputError
from placewright.support.quantities import counted, format_bytes, format_time_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitCost:
    """The cost of one split. one_batch: the batch in one piece. stage_ns: per device its computing time for a batch, or
    the time in which its process launches that, whichever is longer."""

    one_batch: PlacementCost
    stage_ns: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitJudgement:
    """A comparison of a plan's stages with the plan. num_moved: ops that are on another device than in the plan.
    layers: the stages made of `contiguous-split` on the same machine; None where there are none."""

    split: Split
    num_moved: int
    own: SplitCost
    layers: SplitCost | None


def judge_split(plan: Plan, graph: Graph, measured: Path | None = None) -> SplitJudgement:
    """Plan the graph anew with every stage on its device.

    Raises InputError when there is nothing to split, or an op of the graph has no time.
    """
    problem = unconstrained_problem(plan, graph, measured)
    split = find_split(graph, placed_by(plan, graph))
    staged = _under_split(problem, graph, split)
    return SplitJudgement(
        split=split,
        num_moved=int((staged != planned_devices(problem, plan, graph)).sum()),
        own=_cost(problem, staged, plan.seed),
        layers=_by_layers(problem, plan, graph),
    )


def split_words(plan: Plan, found: SplitJudgement) -> Iterator[str]:
    """Compare the cost of the stages with the plan's and one device's, in sentences."""
    own = found.own.one_batch.anew
    yield f"{counted(found.num_moved, 'op')} of {len(plan.ops):,} run on another device than in the plan"
    times = f"plan {format_time_ns(plan.metrics.step_time_ns)}; this split {_times(found.own.one_batch)}"
    yield f"step time: {times}{one_device_words(plan)}"
    slowest = max(found.split.devices, key=found.own.stage_ns.__getitem__)
    taken = format_time_ns(found.own.stage_ns[slowest])
    yield f"slowest stage: {taken}, on {device_words(plan, slowest)}: what each batch takes while the pipeline is full"
    if plan.objective == "peak-memory" or own.bytes_over_limit:
        peaks = [format_bytes(metrics.peak_memory_bytes) for metrics in (plan.metrics, own)]
        yield f"peak memory: plan {peaks[0]}; this split {peaks[1]}{over_words(own)}"
    if found.layers is not None and _slowest(found.layers) < _slowest(found.own):
        told = f"{_times(found.layers.one_batch)}{over_words(found.layers.one_batch.anew)}"
        slowest_time = format_time_ns(_slowest(found.layers))
        yield f"`--solver contiguous-split` gives other stages: {told}; slowest stage {slowest_time}"


def split_objections(plan: Plan, graph: Graph, found: SplitJudgement) -> Iterator[str]:
    """List the objections to the split, and what torch.distributed.pipelining cannot run of it."""
    own, one = found.own.one_batch.anew, plan.one_device
    if own.bytes_over_limit and not plan.metrics.bytes_over_limit:
        yield f"this split does not fit, unlike the plan: {format_bytes(own.bytes_over_limit)} over the limits"
    if one is not None and not one.metrics.bytes_over_limit and _slowest(found.own) >= one.metrics.step_time_ns:
        yield f"no pipeline of these stages is faster than {device_words(plan, one.device)} alone{again_words(one)}"
    for name, stage in inputs_in_later_stages(graph, found.split):
        yield f"stage {stage} reads the input '{name}', which torch.distributed.pipelining hands to stage 0 alone"
    if shared := list(parameters_in_several_stages(graph, found.split)):
        few = ", ".join(shared[:3]) + (", ..." if len(shared) > 3 else "")
        yield f"several stages read {few}: each has a copy, and training must add up their gradients"


def _by_layers(problem: Problem, plan: Plan, graph: Graph) -> SplitCost | None:
    device_of = split_by_layers(problem, plan, graph).tolist()
    times = np.maximum(1, problem.time_ns[problem.lowered.graph_op, device_of]).tolist()  # as `placed_by` has them
    placed = dict(zip(problem.lowered.graph_op.tolist(), zip(device_of, times, strict=True), strict=True))
    try:
        split = find_split(graph, placed)
    except InputError:
        # `contiguous-split` fills one device.
        return None
    return _cost(problem, _under_split(problem, graph, split), plan.seed)


def _under_split(problem: Problem, graph: Graph, split: Split) -> NDArray[np.int32]:
    """Return the device of every scheduled op; ops that must share a device go with the first."""
    devices = np.array(split.devices, np.int32)[stage_of_ops(graph, split)]
    group, _ = problem.groups
    return devices[problem.lowered.graph_op][group]


def _cost(problem: Problem, device_of: NDArray[np.int32], seed: int) -> SplitCost:
    one_batch = placement_cost(problem, device_of, seed)
    machine = problem.machine
    takes_time = problem.time_ns[problem.lowered.graph_op, device_of] > 0
    num_ops = np.bincount(device_of[takes_time], minlength=machine.num_devices).tolist()
    launches = [
        0 if device.launches_itself or machine.launch == "graphs" else count * device.launch_overhead_ns
        for device, count in zip(machine.devices, num_ops, strict=True)
    ]
    return SplitCost(one_batch=one_batch, stage_ns=tuple(map(max, one_batch.anew.busy_ns, launches)))


def _slowest(cost: SplitCost) -> int:
    return max(cost.stage_ns)


def _times(cost: PlacementCost) -> str:
    anew, in_turn = format_time_ns(cost.anew.step_time_ns), format_time_ns(cost.one_at_a_time_ns)
    return f"{anew} planned anew, {in_turn} one stage after the other"
