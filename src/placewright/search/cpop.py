"""CPOP, critical path on a processor (Topcuoglu, Hariri and Wu 2002, section 4.3)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from placewright import _core
from placewright.problem import Problem
from placewright.search.baseline import Baseline, Candidate
from placewright.search.contention_free import ContentionFree, by_priority
from placewright.search.insertion import InsertionSchedule

#: One edge of the graph: the op at its other end and the mean time of what moves along it.
Edge = tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class Cpop(Baseline):
    """Of the ready ops the one of highest upward plus downward rank next; those of the critical path all on the device
    that runs it fastest, the others inserted where they finish first.

    Times, simulation and constraints as in `heft`. A group with an op on the critical path stands whole on its device;
    an op that may not go there is placed like the others.
    """

    name: str = "cpop"

    def candidates(self, problem: Problem) -> Iterator[Candidate]:
        yield cpop_schedule(problem).candidate(self.name)


def cpop_schedule(problem: Problem) -> InsertionSchedule:
    """The paper's own schedule, before tensors queue at the links."""
    schedule = InsertionSchedule(problem)
    plan, edges = schedule.plan, _edges(schedule.plan, _mean_transfer_ns(problem))
    upward: list[int] = _core.bottom_levels(problem.core).tolist()
    downward = _downward_ranks(plan, edges)
    _settle(plan, _critical_path(plan, edges, upward), problem.machine.num_devices)
    for op in by_priority(plan, [-up - down for up, down in zip(upward, downward, strict=True)]):
        schedule.place(op)
    return schedule


def _mean_transfer_ns(problem: Problem) -> list[int]:
    """Per tensor the time over a link that stands for all of the machine's, as in the core's bottom levels."""
    count = problem.machine.num_devices
    links = [problem.machine.links[a][b] for a in range(count) for b in range(count) if a != b]
    if not links:
        return [0] * len(problem.lowered.remote_bytes)
    latency = sum(link.latency_ns for link in links) // len(links)
    inverse_bandwidth = sum(link.inverse_bandwidth for link in links) // len(links)
    return [latency + (size * inverse_bandwidth >> 32) for size in problem.lowered.remote_bytes.tolist()]


def _edges(plan: ContentionFree, transfer_ns: Sequence[int]) -> list[list[Edge]]:
    """Per op one edge per tensor that another reads and per control dependency."""
    edges: list[list[Edge]] = [[] for _ in plan.inputs]
    for op, tensors in enumerate(plan.inputs):
        for tensor in tensors:
            edges[plan.producer[tensor]].append((op, transfer_ns[tensor]))
        for previous in plan.before[op]:
            edges[previous].append((op, 0))
    return edges


def _downward_ranks(plan: ContentionFree, edges: Sequence[Sequence[Edge]]) -> list[int]:
    """Per op the longest path from the start to it, over mean times, its own not counted."""
    rank = [0] * len(edges)
    for op, own in enumerate(edges):
        after = rank[op] + sum(plan.times[op]) // len(plan.times[op])
        for successor, transfer_ns in own:
            rank[successor] = max(rank[successor], after + transfer_ns)
    return rank


def _critical_path(plan: ContentionFree, edges: Sequence[Sequence[Edge]], upward: Sequence[int]) -> list[int]:
    """The longest path: from the first op of highest upward rank, always on along what that rank counts."""
    sources = [op for op, count in enumerate(plan.num_awaited) if count == 0]
    path = [max(sources, key=lambda op: upward[op])]
    while own := edges[path[-1]]:
        path.append(max(own, key=lambda edge: edge[1] + upward[edge[0]])[0])
    return path


def _settle(plan: ContentionFree, path: Sequence[int], num_devices: int) -> None:
    """Puts the path's groups on the device that runs most of it, and of those the one that runs it fastest."""
    allowed = [set(plan.devices(op)) for op in path]

    def cost(device: int) -> tuple[int, int]:
        return sum(device not in own for own in allowed), sum(plan.times[op][device] for op in path)

    best = min(range(num_devices), key=cost)
    for op, own in zip(path, allowed, strict=True):
        if best in own:
            plan.settle_group(op, best)
