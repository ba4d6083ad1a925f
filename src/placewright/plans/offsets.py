"""Offsets of a plan's buffers: one arena per device, as small as can be found.

The plan's order decides which of two buffers that meet at one instant goes first. The plan does not record the last
reader of a buffer, only when it finishes; of several steps that finish then, the last is taken. So nothing is
overwritten too early.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from placewright._core import smallest_arena
from placewright.plans.record import Buffer, Plan
from placewright.support.errors import InputError

#: The size of a cache line, which vector instructions and DMA engines can work with.
DEFAULT_ALIGNMENT = 64
#: The most inspections of buffers in a search: about ten seconds per device.
_EFFORT = 4_000_000_000

_Event = tuple[int, int, int]  # time, position in the order, 0 for a start and 1 for a finish


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedBuffer:
    """A buffer with its place in an arena.

    Attributes
    ----------
    buffer
        The buffer of the plan.
    offset
        Offset of its first byte, a multiple of the alignment.
    begin, end
        It is held from event `begin` up to event `end`; a buffer that begins with event `end` may have its bytes.
    """

    buffer: Buffer
    offset: int
    begin: int
    end: int


@dataclass(frozen=True, kw_only=True)
class Arena:
    """The places of all buffers on one device.

    Attributes
    ----------
    device
        Index into `machine.devices`.
    alignment
        Offsets are multiples of it; sizes are rounded up to one.
    size_bytes
        Size of the arena: the end of its highest buffer.
    bound_bytes
        A proven lower bound on the size of any arena: at least the most memory held at one time, with sizes rounded up.
    buffers
        All buffers that take bytes, in the plan's order.
    """

    device: int
    alignment: int
    size_bytes: int
    bound_bytes: int
    buffers: tuple[PlacedBuffer, ...]


def lay_out(plan: Plan, alignment: int = DEFAULT_ALIGNMENT) -> tuple[Arena, ...]:
    """An arena for each device of the plan.

    Raises
    ------
    InputError
        When the alignment is not a power of two.
    """
    if alignment < 1 or alignment & (alignment - 1):
        raise InputError(f"an alignment is a power of two, not {alignment}")
    spans = _spans(plan)
    return tuple(_arena(plan, device, alignment, spans) for device in range(plan.machine.num_devices))


def _arena(plan: Plan, device: int, alignment: int, spans: dict[int, tuple[_Event, _Event]]) -> Arena:
    buffers = [buffer for buffer in plan.buffers if buffer.device == device and buffer.size_bytes > 0]
    if not buffers:
        return Arena(device=device, alignment=alignment, size_bytes=0, bound_bytes=0, buffers=())
    numbers = {event: number for number, event in enumerate(sorted({e for b in buffers for e in spans[id(b)]}))}
    begin, end = ([numbers[spans[id(b)][side]] for b in buffers] for side in (0, 1))
    units = np.array([-(-buffer.size_bytes // alignment) for buffer in buffers], np.int64)
    offsets, size, bound = smallest_arena(np.array(begin, np.int32), np.array(end, np.int32), units, _EFFORT)
    return Arena(
        device=device,
        alignment=alignment,
        size_bytes=size * alignment,
        bound_bytes=bound * alignment,
        buffers=tuple(
            PlacedBuffer(buffer=buffer, offset=offset * alignment, begin=first, end=last)
            for buffer, offset, first, last in zip(buffers, offsets.tolist(), begin, end, strict=True)
        ),
    )


def _spans(plan: Plan) -> dict[int, tuple[_Event, _Event]]:
    """Map the id of each buffer to the start with which it begins and the finish with which it ends."""
    made = {op.name: op.position for op in plan.ops}
    brought = {(transfer.tensor, transfer.destination): transfer.position for transfer in plan.transfers}
    last_on: defaultdict[tuple[int, int], int] = defaultdict(lambda: -1)  # of the ops on a device that finish then
    for op in plan.ops:
        last_on[op.device, op.finish_ns] = max(last_on[op.device, op.finish_ns], op.position)
    last_sent: defaultdict[tuple[str, int], int] = defaultdict(lambda: -1)  # of a tensor's transfers that finish then
    for transfer in plan.transfers:
        key = transfer.tensor, transfer.finish_ns
        last_sent[key] = max(last_sent[key], transfer.position)
    never = (plan.step_time_ns + 1, 0, 0)
    spans = {}
    for buffer in plan.buffers:
        if buffer.kind == "resident":
            spans[id(buffer)] = (0, -1, 0), never
            continue
        first = brought[buffer.name, buffer.device] if buffer.kind == "copy" else made[buffer.op]
        last = max(first, last_on[buffer.device, buffer.freed_ns])
        if buffer.kind == "workspace":
            last = first
        elif buffer.kind == "tensor":
            last = max(last, last_sent[buffer.name, buffer.freed_ns])
        stays = buffer.kind == "tensor" and buffer.freed_ns == plan.step_time_ns  # it may be a graph output
        spans[id(buffer)] = (buffer.allocated_ns, first, 0), never if stays else (buffer.freed_ns, last, 1)
    return spans
