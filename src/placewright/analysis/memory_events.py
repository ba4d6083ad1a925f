"""The order of the allocations and frees that make up a device's memory curve.

A plan lists its buffers and, separately, the memory in use after each event. Order matters at one instant, where memory
that one op frees is available to the next. The order is taken from the curve, so that a replay of the events reaches
the same peak.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from placewright.plans.record import Buffer, Plan

_SEARCH_LIMIT = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryEvent:
    """The allocation or the free of one buffer on its device."""

    time_ns: int
    buffer: Buffer
    allocates: bool


def memory_events(plan: Plan, device: int) -> list[MemoryEvent]:
    """List every allocation and free on one device, residents first, in the order of its memory curve.

    Buffers that the curve still holds at the end of the step (residents, graph outputs) are never freed.
    """
    residents = [buffer for buffer in plan.buffers if buffer.device == device and buffer.kind == "resident"]
    allocated: defaultdict[int, list[Buffer]] = defaultdict(list)
    freed: defaultdict[int, list[Buffer]] = defaultdict(list)
    for buffer in _in_order_of_allocation(plan, device):
        allocated[buffer.allocated_ns].append(buffer)
        freed[buffer.freed_ns].append(buffer)
    changes = _curve_changes(plan, device)
    events = [MemoryEvent(time_ns=0, buffer=buffer, allocates=True) for buffer in residents]
    for time in sorted({*allocated, *freed}):
        last = time == plan.metrics.step_time_ns
        for buffer, allocates in _at_one_instant(allocated[time], freed[time], changes[time], last):
            events.append(MemoryEvent(time_ns=time, buffer=buffer, allocates=allocates))
    return events


def alive_at_peak(plan: Plan, device: int) -> tuple[int, list[Buffer]]:
    """Return (time of the device's peak in ns, the buffers alive at that time, in order of allocation)."""
    events = memory_events(plan, device)
    in_use = peak = index_of_peak = 0
    for index, event in enumerate(events):
        in_use += event.buffer.size_bytes if event.allocates else -event.buffer.size_bytes
        if in_use > peak:
            peak, index_of_peak = in_use, index
    alive: dict[int, Buffer] = {}
    for event in events[: index_of_peak + 1]:
        if event.allocates:
            alive[id(event.buffer)] = event.buffer
        else:
            del alive[id(event.buffer)]
    return (events[index_of_peak].time_ns if events else 0), list(alive.values())


def _in_order_of_allocation(plan: Plan, device: int) -> list[Buffer]:
    """List the buffers that are not resident, by time and then by the position of the step that allocates them."""
    position = {op.name: op.position for op in plan.ops}
    arrival = {(transfer.tensor, transfer.destination): transfer.position for transfer in plan.transfers}

    def place(buffer: Buffer) -> tuple[int, int]:
        at_home = position.get(buffer.op, -1)
        return buffer.allocated_ns, arrival.get((buffer.name, device), at_home) if buffer.kind == "copy" else at_home

    return sorted((b for b in plan.buffers if b.device == device and b.kind != "resident"), key=place)


def _curve_changes(plan: Plan, device: int) -> defaultdict[int, list[int]]:
    """Map each time to the differences between successive points of the curve at that time, in order."""
    curve = plan.memory_curves[device]
    changes: defaultdict[int, list[int]] = defaultdict(list)
    for time, (before, after) in zip(curve.time_ns[1:], pairwise(curve.bytes_in_use), strict=True):
        changes[time].append(after - before)
    return changes


def _at_one_instant(
    allocated: Sequence[Buffer], freed: Sequence[Buffer], changes: Sequence[int], last: bool
) -> Iterator[tuple[Buffer, bool]]:
    """Yield (buffer, allocates) in an order that passes through `changes`. Buffers that no change accounts for follow
    at the end; at the last instant of the step, buffers still alive stay."""
    coming, alive = list(allocated), [buffer for buffer in freed if buffer.allocated_ns < buffer.freed_ns]
    ends_here = {id(buffer) for buffer in freed}
    for change in changes:
        if change > 0:
            for buffer in _take_until(coming, change):
                if id(buffer) in ends_here:
                    alive.append(buffer)
                yield buffer, True
        for buffer in _with_total(alive, -change) if change < 0 else []:
            alive.remove(buffer)
            yield buffer, False
    yield from ((buffer, False) for buffer in alive if not last)
    for buffer in coming:
        yield buffer, True
        if id(buffer) in ends_here:
            yield buffer, False


def _take_until(coming: list[Buffer], total: int) -> Iterator[Buffer]:
    """Remove and yield buffers from the front until their sizes reach `total`."""
    while coming and total > 0:
        total -= coming[0].size_bytes
        yield coming.pop(0)


def _with_total(buffers: Sequence[Buffer], total: int) -> list[Buffer]:
    """Choose buffers whose sizes add up to `total`: all if they do, otherwise the first choice found by a bounded
    search, or none."""
    if sum(buffer.size_bytes for buffer in buffers) == total:
        return list(buffers)
    largest_first = sorted((b for b in buffers if b.size_bytes), key=lambda b: -b.size_bytes)
    stack: list[tuple[int, int, tuple[int, ...]]] = [(0, total, ())]
    for _ in range(_SEARCH_LIMIT):
        if not stack:
            break
        index, missing, chosen = stack.pop()
        if missing == 0:
            return [largest_first[i] for i in chosen]
        if index < len(largest_first):
            stack.append((index + 1, missing, chosen))
            if (size := largest_first[index].size_bytes) <= missing:
                stack.append((index + 1, missing - size, (*chosen, index)))
    return []
