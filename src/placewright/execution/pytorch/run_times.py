"""Times of ops and links from a run as planned, for planning again.

Imported only where torch is known to be present.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from statistics import median

import numpy as np
from numpy.typing import NDArray

from placewright.costs.measured import MeasuredOp
from placewright.execution.pytorch.profile import middle, observer_ns, with_views
from placewright.execution.steps import needs_of
from placewright.graph import Graph
from placewright.machine import Link, Machine
from placewright.plans.record import Plan

#: The fewest waits from which a link's latency is taken.
_MIN_WAITS = 3


def op_times_of_run(plan: Plan, graph: Graph, passes: NDArray[np.float64]) -> dict[str, MeasuredOp]:
    """The times of ops in a run of a plan, including what their devices spent before them. passes: [pass, op, start and
    finish], negative where no device ran an op."""
    taken, _ = middle(passes)
    gap = _gap_ns(plan, graph, passes) - observer_ns()
    times = [MeasuredOp(round(float(each)), op.workspace_bytes) for each, op in zip(taken, graph.ops, strict=True)]
    return with_views(graph, times, gap)


def machine_of_run(plan: Plan, graph: Graph, passes: NDArray[np.float64]) -> Machine:
    """The plan's machine with links that take as long as devices waited in the run; unchanged where none waited."""
    waits = _waits_ns(plan, graph, passes)
    if len(waits) < _MIN_WAITS:
        return plan.machine
    sizes = {transfer.tensor: transfer.size_bytes for transfer in plan.transfers}
    beside = median(sizes.values()) if sizes else 0
    links = tuple(
        tuple(_with_wait(link, int(median(waits)), int(beside)) for link in row) for row in plan.machine.links
    )
    return replace(plan.machine, links=links)


def _with_wait(link: Link, latency_ns: int, size_bytes: int) -> Link:
    """The link with the latency for which a tensor of that size takes as long as the wait for it."""
    by_size = link.transfer_time_ns(size_bytes) - link.latency_ns
    return replace(link, latency_ns=max(0, latency_ns - by_size))


def _gap_ns(plan: Plan, graph: Graph, passes: NDArray[np.float64]) -> int:
    """The 25th percentile of gaps between two ops on one device; at least a quarter of them have no waits or views."""
    gaps = []
    for ops in _by_device(plan, graph):
        for one in passes:
            events = one[ops][np.argsort(one[ops, 0])]
            gaps.append(events[1:, 0] - events[:-1, 1])
    between = np.concatenate(gaps) if gaps else np.zeros(0)
    between = between[between >= 0]
    return round(float(np.percentile(between, 25))) if len(between) else 0


def _waits_ns(plan: Plan, graph: Graph, passes: NDArray[np.float64]) -> list[float]:
    """The waits of devices for tensors of others: from the end of the op that makes one to the start of its reader."""
    device_of = plan.device_of
    times = np.median(passes, axis=0)
    waits = []
    for ops in _by_device(plan, graph):
        free_at = -np.inf
        for op in sorted(ops, key=lambda op: times[op, 0]):
            start, finish = times[op]
            made = _made_elsewhere(op, graph, device_of, times)
            if made > free_at:
                waits.append(start - made)
            free_at = finish
    return waits


def _made_elsewhere(op: int, graph: Graph, device_of: Mapping[str, int], times: NDArray[np.float64]) -> float:
    """The time when the last tensor from another device that an op reads was made; minus infinity for none."""
    own = device_of[graph.ops[op].name]
    latest = -np.inf
    for tensor in needs_of(op, graph):
        maker = graph.producer_of[graph.base_of[tensor]]
        if maker >= 0 and device_of.get(graph.ops[maker].name, own) != own:
            latest = max(latest, times[maker, 1])
    return float(latest)


def _by_device(plan: Plan, graph: Graph) -> list[list[int]]:
    """The planned ops of each device, by their numbers in the graph."""
    device_of = plan.device_of
    ops: list[list[int]] = [[] for _ in plan.machine.devices]
    for index, op in enumerate(graph.ops):
        if op.name in device_of:
            ops[device_of[op.name]].append(index)
    return ops
