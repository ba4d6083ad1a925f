"""Whether a plan that was read agrees with itself."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from placewright.plans.record import Plan, ScheduledOp, Transfer
from placewright.support.errors import InputError, shown


def check_consistency(plan: Plan) -> None:
    """What one field promises about another; readers of plans rely on it. Raises InputError without the file's name."""
    num_devices = plan.machine.num_devices
    _check_lengths(plan, num_devices)
    _check_steps(plan, num_devices)
    names = {op.name for op in plan.ops}
    _require(len(names) == len(plan.ops), "two ops have one name")
    _check_reruns(plan, names)
    _check_moves(plan, names)
    _check_buffers(plan, num_devices, names)
    for transfer in plan.transfers:
        if transfer.producer not in names:
            name = shown(transfer.tensor)
            raise InputError(f"a transfer moves '{name}' of op '{shown(transfer.producer)}', which is not in the plan")
    for curve in (*plan.memory_curves, *([plan.input_order_memory] if plan.input_order_memory else [])):
        times = curve.time_ns
        _require(len(times) == len(curve.bytes_in_use) > 0, "a memory curve needs as many times as values")
        _require(all(a <= b for a, b in pairwise(times)), "a memory curve goes back in time")


def _check_lengths(plan: Plan, num_devices: int) -> None:
    """One entry per device in all that is per device."""
    lists: dict[str, Sequence[object]] = {
        "memory_limits_bytes": plan.memory_limits_bytes,
        "memory_curves": plan.memory_curves,
        "metrics.peak_bytes": plan.metrics.peak_bytes,
        "metrics.busy_ns": plan.metrics.busy_ns,
    }
    for baseline in plan.baselines:
        if baseline.metrics is not None:
            lists[f"baseline {baseline.name}: peak_bytes"] = baseline.metrics.peak_bytes
            lists[f"baseline {baseline.name}: busy_ns"] = baseline.metrics.busy_ns
    if plan.one_device is not None:
        lists["one_device: peak_bytes"] = plan.one_device.metrics.peak_bytes
        lists["one_device: busy_ns"] = plan.one_device.metrics.busy_ns
        device = plan.one_device.device
        _require(device < num_devices, f"one_device is device {device}; there are {num_devices}")
    for key, values in lists.items():
        _require(len(values) == num_devices, f"{key} has {len(values)} entries for {num_devices} devices")


def _check_reruns(plan: Plan, names: set[str]) -> None:
    """Each an op of the plan, as is the op that runs again and the one before which it does."""
    again = [rerun.name for rerun in plan.reruns]
    _require(len(set(again)) == len(again), "two reruns have one name")
    for rerun in plan.reruns:
        for name in (rerun.name, rerun.op, rerun.before):
            if name not in names:
                raise InputError(f"the rerun '{shown(rerun.name)}' names '{shown(name)}', which is no op of the plan")
        if not set(again).isdisjoint((rerun.op, rerun.before)):
            raise InputError(f"the rerun '{shown(rerun.name)}' names another rerun where a first run belongs")


def _check_moves(plan: Plan, names: set[str]) -> None:
    """Each of another tensor, before ops of the plan, to a host's memory that is there."""
    moved = [move.tensor for move in plan.moves]
    _require(len(set(moved)) == len(moved), "two moves are of one tensor")
    _require(not moved or plan.machine.devices[-1].is_host, "there are moves, and no memory of the host")
    for move in plan.moves:
        for name in move.runs:
            if name not in names:
                raise InputError(
                    f"the move of '{shown(move.tensor)}' names '{shown(name)}', which is no op of the plan"
                )


def _check_buffers(plan: Plan, num_devices: int, names: set[str]) -> None:
    """Each on a device, for a time, and of an op or, a copy, of a transfer that brings it; residents are of no op."""
    brought = {(transfer.tensor, transfer.destination) for transfer in plan.transfers}
    for buffer in plan.buffers:
        label = f"buffer '{shown(buffer.name)}'"
        if buffer.device >= num_devices:
            raise InputError(f"{label} is on device {buffer.device}; there are {num_devices}")
        if buffer.allocated_ns > buffer.freed_ns:
            raise InputError(f"{label} is freed before it is allocated")
        if buffer.kind == "resident":
            if buffer.op:
                raise InputError(f"{label} is resident and yet belongs to op '{shown(buffer.op)}'")
        elif buffer.op not in names:
            raise InputError(f"{label} belongs to op '{shown(buffer.op)}', which is not in the plan")
        elif buffer.kind == "copy" and (buffer.name, buffer.device) not in brought:
            raise InputError(f"{label} is a copy that no transfer brings to device {buffer.device}")


def _check_steps(plan: Plan, num_devices: int) -> None:
    for op in plan.ops:
        if op.device >= num_devices:
            raise InputError(f"op '{shown(op.name)}' is on device {op.device}; there are {num_devices}")
    for transfer in plan.transfers:
        source, destination = transfer.source, transfer.destination
        if max(source, destination) >= num_devices or source == destination:
            raise InputError(
                f"a transfer of '{shown(transfer.tensor)}' goes from device {source} to {destination}; "
                f"there are {num_devices}"
            )
    every: list[ScheduledOp | Transfer] = [*plan.ops, *plan.transfers]
    for positions in ([op.position for op in plan.ops], [transfer.position for transfer in plan.transfers]):
        _require(all(a < b for a, b in pairwise(positions)), "steps are not sorted by position")
    _require({step.position for step in every} == set(range(len(every))), "the positions are not 0, 1, 2 and so on")
    for step in every:
        if step.start_ns > step.finish_ns:
            raise InputError(f"the step at position {step.position} finishes before it starts")
        if step.waits_for >= step.position:
            raise InputError(f"the step at position {step.position} waits for a later one")


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise InputError(otherwise)
