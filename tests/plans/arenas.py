"""A slow, obvious check that a plan's arenas hold what its devices hold, without overlaps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from placewright.graph import Graph
from placewright.plans.offsets import Arena, PlacedBuffer
from placewright.plans.record import Plan
from placewright.verification.order import records_of, steps_of
from placewright.verification.replay import Held, demands, held_memory


def check_arenas(plan: Plan, graph: Graph, arenas: Sequence[Arena]) -> list[str]:
    """Return what is wrong with the arenas, one sentence each; empty if they are right.

    graph: as it is planned, with the plan's reruns. The times from which and until which memory is held are read off
    the graph, not off the plan's buffers or the arenas' events.
    """
    times = [(record.start_ns, record.finish_ns) for record in records_of(plan)]
    held = held_memory(graph, demands(graph, plan.control), steps_of(plan, graph), times)
    problems = []
    for device, arena in enumerate(arenas):
        here = [memory for memory in held if memory.device == device and memory.size_bytes > 0]
        problems += _about_arena(arena, here)
    return problems


def _about_arena(arena: Arena, held: Sequence[Held]) -> list[str]:
    where = f"the arena of device {arena.device}"
    place = {(p.buffer.kind, p.buffer.name): p for p in arena.buffers}
    if Counter(p.buffer.size_bytes for p in arena.buffers) != Counter(memory.size_bytes for memory in held):
        return [f"{where} holds other buffers than the device"]
    problems = [
        f"{where} has '{p.buffer.name}' at {p.offset}, not a multiple of {arena.alignment} within the arena"
        for p in arena.buffers
        if p.offset % arena.alignment or not 0 <= p.offset <= arena.size_bytes - p.buffer.size_bytes
    ]
    alive: list[Held] = []
    for memory in sorted(held, key=lambda memory: memory.begin):
        alive = [other for other in alive if other.end is None or other.end > memory.begin]
        own = place[memory.kind, memory.name]
        problems += [
            f"{where} has '{memory.name}' and '{other.name}' in one place at {memory.begin[0]} ns"
            for other in alive
            if _share_bytes(own, place[other.kind, other.name])
        ]
        alive.append(memory)
    if arena.size_bytes < arena.bound_bytes:
        problems.append(f"{where} is smaller than its bound")
    return problems


def _share_bytes(one: PlacedBuffer, other: PlacedBuffer) -> bool:
    return one.offset < other.offset + other.buffer.size_bytes and other.offset < one.offset + one.buffer.size_bytes
