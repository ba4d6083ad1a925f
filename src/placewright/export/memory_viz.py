"""PyTorch's memory snapshot, as pytorch.org/memory_viz and torch.cuda._memory_viz read it.

A pickled dictionary: device_traces holds, per device, alloc and free events in order; segments holds the memory
allocated at the end. The format is that of torch.cuda.memory._snapshot() (PyTorch 2.x).
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from typing import Any

from placewright.analysis.memory_events import MemoryEvent, memory_events
from placewright.plans.record import Buffer, Plan, ScheduledOp

_Record = dict[str, Any]

#: Device d has addresses from (d + 1) * 2**46, so that addresses are unique and exact in a double.
_ADDRESSES_PER_DEVICE = 1 << 46


def to_bytes(plan: Plan) -> bytes:
    """Write the pickle, protocol 4. Addresses are made up: no buffer reuses another's, so each has a line of its
    own."""
    ops = {op.name: op for op in plan.ops}
    traces, segments = [], []
    for device in range(plan.machine.num_devices):
        events = [event for event in memory_events(plan, device) if event.buffer.size_bytes > 0]
        addresses = _addresses(device, events)
        frames = {id(event.buffer): _frames(event.buffer, ops) for event in events if event.allocates}
        if segment := _segment(device, events, addresses, frames):
            segments.append(segment)
            traces.append([_segment_event(segment), *_trace(events, addresses, frames)])
        else:
            traces.append([])
    return pickle.dumps({"segments": segments, "device_traces": traces}, protocol=4)


def _addresses(device: int, events: Sequence[MemoryEvent]) -> dict[int, int]:
    """Map id(buffer) to an address; buffers are laid out one after the other, in order of allocation."""
    addresses: dict[int, int] = {}
    following = (device + 1) * _ADDRESSES_PER_DEVICE
    for event in events:
        if event.allocates:
            addresses[id(event.buffer)] = following
            following += event.buffer.size_bytes
    return addresses


def _frames(buffer: Buffer, ops: dict[str, ScheduledOp]) -> list[_Record]:
    """Build a call stack from the plan, innermost first: the buffer, its op, the module, the source line."""
    stack = [{"name": buffer.name, "filename": buffer.kind, "line": 0}]
    op = ops.get(buffer.op)
    if op is None:
        return stack
    filename, _, line = op.source.rpartition(":")
    stack.append({"name": op.name, "filename": filename or op.kind, "line": int(line) if line.isdecimal() else 0})
    if op.module:
        stack.append({"name": op.module, "filename": op.phase or "module", "line": 0})
    return stack


def _trace(
    events: Sequence[MemoryEvent], addresses: dict[int, int], frames: dict[int, list[_Record]]
) -> Iterator[_Record]:
    for event in events:
        record = {
            "addr": addresses[id(event.buffer)],
            "size": event.buffer.size_bytes,
            "stream": 0,
            "time_us": event.time_ns // 1000,
            "frames": frames[id(event.buffer)],
        }
        for action in ("alloc",) if event.allocates else ("free_requested", "free_completed"):
            yield {"action": action, **record}


def _segment(
    device: int, events: Sequence[MemoryEvent], addresses: dict[int, int], frames: dict[int, list[_Record]]
) -> _Record | None:
    """Build one segment over all addresses of a device, its blocks in their final state; None for an empty device."""
    allocated = [event.buffer for event in events if event.allocates]
    if not allocated:
        return None
    freed = {id(event.buffer) for event in events if not event.allocates}
    blocks = [_block(buffer, id(buffer) in freed, addresses, frames) for buffer in allocated]
    active = sum(block["size"] for block in blocks if block["state"] == "active_allocated")
    total = sum(block["size"] for block in blocks)
    return {
        "device": device,
        "address": (device + 1) * _ADDRESSES_PER_DEVICE,
        "total_size": total,
        "stream": 0,
        "segment_type": "large",
        "segment_pool_id": (0, 0),
        "is_expandable": False,
        "allocated_size": active,
        "active_size": active,
        "requested_size": active,
        "frames": [],
        "blocks": blocks,
    }


def _block(buffer: Buffer, is_free: bool, addresses: dict[int, int], frames: dict[int, list[_Record]]) -> _Record:
    return {
        "address": addresses[id(buffer)],
        "size": buffer.size_bytes,
        "requested_size": buffer.size_bytes,
        "state": "inactive" if is_free else "active_allocated",
        "frames": frames[id(buffer)],
    }


def _segment_event(segment: _Record) -> _Record:
    return {
        "action": "segment_alloc",
        "addr": segment["address"],
        "size": segment["total_size"],
        "stream": 0,
        "time_us": 0,
        "frames": [],
    }
