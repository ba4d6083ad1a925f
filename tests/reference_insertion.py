"""Insertion-based scheduling the slow, obvious way: lists of busy times, looked through from the beginning."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from reference import structure_of

import placewright._core as _core
from placewright.lab.peers.contention_free import ContentionFree
from placewright.problem import Problem

Busy = list[tuple[int, int]]  # (start, finish), sorted


@dataclass(kw_only=True)
class Inserted:
    """A schedule. device_of, start, finish: per op. step_time_ns: when the last op ends."""

    device_of: list[int]
    start: list[int]
    finish: list[int]
    sequence: list[int] = field(default_factory=list)

    @property
    def step_time_ns(self) -> int:
        return max(self.finish)


def insert(
    problem: Problem,
    sequence: Sequence[int],
    *,
    links_queue: bool = False,
    fixed: Sequence[int] = (),
    outlook: Sequence[Sequence[int]] = (),
) -> Inserted:
    """The schedule that the core's insertion_schedule should return."""
    structure, machine = structure_of(problem), problem.machine
    group, allowed = (array.tolist() for array in problem.groups)
    times = problem.time_ns[problem.lowered.graph_op].tolist()
    open_to = {g: [d for d in range(machine.num_devices) if allowed[g] >> d & 1] for g in set(group)}
    for op, device in enumerate(fixed):
        if device >= 0:
            open_to[group[op]] = [device]
    devices: list[Busy] = [[] for _ in machine.devices]
    links: dict[tuple[int, int], Busy] = {}
    arrived: dict[tuple[int, int], int] = {}
    size = len(group)
    plan = Inserted(device_of=[-1] * size, start=[0] * size, finish=[0] * size)

    def transfers(op: int, device: int) -> list[tuple[int, int, int, int]]:
        """(tensor, source, start, finish) of each input that must still move to the device."""
        coming: list[tuple[int, int, int, int]] = []
        for tensor in structure.inputs[op]:
            source = plan.device_of[structure.producer[tensor]]
            if source == device or (tensor, device) in arrived:
                continue
            made = plan.finish[structure.producer[tensor]]
            took = machine.links[source][device].transfer_time_ns(int(problem.lowered.transfer_bytes[tensor]))
            if links_queue:
                made = max([made, *(end for _, other, _, end in coming if other == source)])
                made = _first_fit(links.get((source, device), []), made, took)
            coming.append((tensor, source, made, made + took))
        return coming

    def ready(op: int, device: int) -> int:
        moments = [0, *(end for *_, end in transfers(op, device))]
        for tensor in structure.inputs[op]:
            producer = structure.producer[tensor]
            if plan.device_of[producer] == device:
                moments.append(plan.finish[producer])
            elif (tensor, device) in arrived:
                moments.append(arrived[tensor, device])
        for before in structure.predecessors[op]:
            source = plan.device_of[before]
            if source == device:
                moments.append(plan.finish[before])
            elif problem.control == "signal":
                moments.append(plan.finish[before] + machine.links[source][device].latency_ns)
            else:
                moments.append(plan.start[before])
        return max(moments)

    for op in sequence:
        choices = []
        for device in open_to[group[op]]:
            start = _first_fit(devices[device], ready(op, device), times[op][device])
            later = outlook[op][device] if len(outlook) else 0
            choices.append((start + times[op][device] + later, device, start))
        _, device, start = min(choices)
        if links_queue:
            for tensor, source, begin, end in transfers(op, device):
                _occupy(links.setdefault((source, device), []), begin, end)
                arrived[tensor, device] = end
        plan.device_of[op], plan.start[op], plan.finish[op] = device, start, start + times[op][device]
        _occupy(devices[device], start, plan.finish[op])
        open_to[group[op]] = [device]
    return plan


def _first_fit(busy: Busy, ready: int, duration: int) -> int:
    """The first moment from `ready` on at which the duration overlaps nothing; work of zero length fits between two
    others that touch."""
    moments = [ready, *(end for _, end in busy if end > ready)]
    return min(t for t in moments if all(t + duration <= start or end <= t for start, end in busy))


def _occupy(busy: Busy, start: int, finish: int) -> None:
    busy.append((start, finish))
    busy.sort()


def in_order(problem: Problem, plan: Inserted, sequence: Sequence[int]) -> list[int]:
    """A topological order that always takes the ready op that starts first, then finishes first, then was placed
    first."""
    structure = structure_of(problem)
    place = {op: position for position, op in enumerate(sequence)}
    order: list[int] = []
    while len(order) < len(place):
        ready = [
            op
            for op in place
            if op not in order
            and {structure.producer[t] for t in structure.inputs[op]} | set(structure.predecessors[op]) <= set(order)
        ]
        order.append(min(ready, key=lambda op: (plan.start[op], plan.finish[op], place[op])))
    return order


def optimistic_costs(problem: Problem) -> list[list[int]]:
    """Costs [ops, devices]: the maximum, over an op's successors, of the least time, over the successor's devices, of
    the path that remains."""
    structure, machine = structure_of(problem), problem.machine
    count = machine.num_devices
    links = [machine.links[a][b] for a in range(count) for b in range(count) if a != b]
    latency = sum(link.latency_ns for link in links) // len(links) if links else 0
    inverse = sum(link.inverse_bandwidth for link in links) // len(links) if links else 0
    times = problem.time_ns[problem.lowered.graph_op].tolist()
    costs = [[0] * count for _ in range(structure.num_ops)]
    for op in reversed(range(structure.num_ops)):
        for later in range(op + 1, structure.num_ops):
            read = [t for t in structure.inputs[later] if structure.producer[t] == op]
            moving = [latency + (int(problem.lowered.transfer_bytes[t]) * inverse >> 32) for t in read]
            moving += [0] * (op in structure.predecessors[later])
            for device in range(count):
                for took in moving:
                    best = min(costs[later][d] + times[later][d] + (0 if d == device else took) for d in range(count))
                    costs[op][device] = max(costs[op][device], best)
    return costs


#: The op at the other end of an edge of the graph, and the mean time of the transfer along it.
Edge = tuple[int, int]


def cpop_sequence_and_devices(problem: Problem) -> tuple[list[int], list[int]]:
    """The sequence, and devices or -1, that the core's critical_path_first should return."""
    plan = ContentionFree(problem)
    edges = _edges(plan, _mean_transfer_ns(problem))
    upward: list[int] = _core.bottom_levels(problem.core).tolist()
    downward = _downward_ranks(plan, edges)
    path = _critical_path(plan, edges, upward)
    allowed = [set(plan.devices(op)) for op in path]

    def cost(device: int) -> tuple[int, int]:
        return sum(device not in own for own in allowed), sum(plan.times[op][device] for op in path)

    best = min(range(problem.machine.num_devices), key=cost)
    on_path = {op for op, own in zip(path, allowed, strict=True) if best in own}
    keys = [-up - down for up, down in zip(upward, downward, strict=True)]
    return list(_by_key(plan, keys)), [best if op in on_path else -1 for op in range(len(upward))]


def _by_key(plan: ContentionFree, keys: Sequence[int]) -> Iterator[int]:
    """All ops in topological order, always the ready one of least key, then of least index."""
    awaited = list(plan.num_awaited)
    for _ in keys:
        op = min((op for op, count in enumerate(awaited) if count == 0), key=lambda op: (keys[op], op))
        yield op
        awaited[op] = -1
        for successor in plan.successors[op]:
            awaited[successor] -= 1


def _mean_transfer_ns(problem: Problem) -> list[int]:
    """Transfer time per tensor over a link with the means of the machine's links, as in the core's bottom levels."""
    count = problem.machine.num_devices
    links = [problem.machine.links[a][b] for a in range(count) for b in range(count) if a != b]
    if not links:
        return [0] * len(problem.lowered.transfer_bytes)
    latency = sum(link.latency_ns for link in links) // len(links)
    inverse_bandwidth = sum(link.inverse_bandwidth for link in links) // len(links)
    return [latency + (size * inverse_bandwidth >> 32) for size in problem.lowered.transfer_bytes.tolist()]


def _edges(plan: ContentionFree, transfer_ns: Sequence[int]) -> list[list[Edge]]:
    """Edges out of each op: one per reader of each tensor that it makes, and one per control dependency."""
    edges: list[list[Edge]] = [[] for _ in plan.inputs]
    for op, tensors in enumerate(plan.inputs):
        for tensor in tensors:
            edges[plan.producer[tensor]].append((op, transfer_ns[tensor]))
        for previous in plan.before[op]:
            edges[previous].append((op, 0))
    return edges


def _downward_ranks(plan: ContentionFree, edges: Sequence[Sequence[Edge]]) -> list[int]:
    """Length of the longest path from the start to each op, over mean times, without the op's own time."""
    rank = [0] * len(edges)
    for op, own in enumerate(edges):
        after = rank[op] + sum(plan.times[op]) // len(plan.times[op])
        for successor, transfer_ns in own:
            rank[successor] = max(rank[successor], after + transfer_ns)
    return rank


def _critical_path(plan: ContentionFree, edges: Sequence[Sequence[Edge]], upward: Sequence[int]) -> list[int]:
    """The longest path: from the first source of highest upward rank, always along the edge that sets the rank."""
    sources = [op for op, count in enumerate(plan.num_awaited) if count == 0]
    path = [max(sources, key=lambda op: upward[op])]
    while own := edges[path[-1]]:
        path.append(max(own, key=lambda edge: edge[1] + upward[edge[0]])[0])
    return path
