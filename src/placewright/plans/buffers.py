"""The memory of a schedule: buffers, from the step that makes them to the last that needs them, and memory curves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from placewright.plans.record import Buffer, BufferKind, MemoryCurve
from placewright.plans.schedule import Schedule
from placewright.support.arrays import sorted_unique
from placewright.support.garbage import collection_paused

Int = NDArray[np.int64]

#: The position of the step that frees a graph output: none does before the step ends.
NEVER = -1


@dataclass(frozen=True, kw_only=True, eq=False)
class _Held:
    """Buffers of one kind, as columns: the name of each and of the op it belongs to, its device and size, and the
    positions of the steps at whose start it begins and at whose finish it ends; NEVER for buffers that stay."""

    kind: BufferKind
    name: list[str]
    op: list[str]
    device: Int
    size: Int
    begin: Int
    end: Int


@collection_paused()
def buffers_and_curves(schedule: Schedule) -> tuple[tuple[Buffer, ...], tuple[MemoryCurve, ...]]:
    """Return all memory held on any device, and each device's curve over the events in order."""
    held = [*_held_tensors(schedule), _held_workspaces(schedule)]
    residents = _residents(schedule)
    rows = residents + [row for kind in held for row in _buffers(schedule, kind)]
    device, size, begin, end = (
        np.concatenate([getattr(kind, column) for kind in held]) for column in ("device", "size", "begin", "end")
    )
    on_device = np.append(np.array([row.device for row in residents], np.int64), device)
    allocated = np.append(np.zeros(len(residents), np.int64), schedule.start_ns[begin])
    in_turn = np.lexsort((allocated, on_device))
    curves = []
    for each in range(schedule.problem.machine.num_devices):
        here = (device == each) & (size > 0)
        resident = sum(row.size_bytes for row in residents if row.device == each)
        curves.append(_curve(schedule, resident, size[here], begin[here], end[here]))
    return tuple(rows[row] for row in in_turn.tolist()), tuple(curves)


def _buffers(schedule: Schedule, held: _Held) -> list[Buffer]:
    freed = np.where(held.end == NEVER, schedule.finish_ns.max(), schedule.finish_ns[held.end])
    columns = (held.device, held.size, schedule.start_ns[held.begin], freed)
    return [
        Buffer(name=name, kind=held.kind, op=op, device=device, size_bytes=size, allocated_ns=begin, freed_ns=end)
        for name, op, device, size, begin, end in zip(held.name, held.op, *(c.tolist() for c in columns), strict=True)
    ]


def _curve(schedule: Schedule, resident_bytes: int, size: Int, begin: Int, end: Int) -> MemoryCurve:
    """Build a curve from events sorted by time, then by position, with a start before its finish. Each event is one
    point, however many buffers it changes."""
    freed = end != NEVER
    time = np.concatenate([schedule.start_ns[begin], schedule.finish_ns[end[freed]]])
    rank = np.concatenate([2 * begin, 2 * end[freed] + 1])
    change = np.concatenate([size, -size[freed]])
    in_turn = np.lexsort((rank, time))
    time, rank, in_use = time[in_turn], rank[in_turn], resident_bytes + np.cumsum(change[in_turn])
    last = np.append(rank[1:] != rank[:-1], True) if len(rank) else np.zeros(0, np.bool_)
    return MemoryCurve(time_ns=(0, *time[last].tolist()), bytes_in_use=(resident_bytes, *in_use[last].tolist()))


def _residents(schedule: Schedule) -> list[Buffer]:
    problem, lowered = schedule.problem, schedule.problem.lowered
    num_devices = problem.machine.num_devices
    seen = sorted_unique(lowered.residents.astype(np.int64) * num_devices + schedule.device_of[lowered.resident_reader])
    end = int(schedule.finish_ns.max())
    tensors = [problem.graph.tensors[index] for index in lowered.graph_resident[seen // num_devices].tolist()]
    return [
        Buffer(
            name=tensor.name,
            kind="resident",
            op="",
            device=device,
            size_bytes=tensor.held_bytes,
            allocated_ns=0,
            freed_ns=end,
        )
        for tensor, device in zip(tensors, (seen % num_devices).tolist(), strict=True)
    ]


def _held_workspaces(schedule: Schedule) -> _Held:
    lowered, graph = schedule.problem.lowered, schedule.problem.graph
    ops = schedule.ops[lowered.workspace_bytes[schedule.ops] > 0]
    names = [graph.ops[index].name for index in lowered.graph_op[ops].tolist()]
    positions = schedule.op_position[ops]
    return _Held(
        kind="workspace",
        name=names,
        op=names,
        device=schedule.device_of[ops],
        size=lowered.workspace_bytes[ops],
        begin=positions,
        end=positions,
    )


def _held_tensors(schedule: Schedule) -> tuple[_Held, _Held]:
    """Return the lifetimes of tensors on their own device and of copies elsewhere, from the step that makes them to
    their last consumer there."""
    lowered, graph = schedule.problem.lowered, schedule.problem.graph
    makers = [graph.ops[index].name for index in lowered.graph_op[lowered.producer].tolist()]
    names = schedule.tensor_names

    def held(kind: BufferKind, size_bytes: Int, rows: Int) -> _Held:
        tensors, device, begin, end = rows.T
        return _Held(
            kind=kind,
            name=[names[tensor] for tensor in tensors.tolist()],
            op=[makers[tensor] for tensor in tensors.tolist()],
            device=device,
            size=size_bytes[tensors],
            begin=begin,
            end=end,
        )

    lifetimes = schedule.lifetimes
    copies = lifetimes[:, 1] != schedule.home[lifetimes[:, 0]]
    originals = held("tensor", lowered.allocated_bytes, lifetimes[~copies])
    return originals, held("copy", lowered.copy_bytes, lifetimes[copies])
