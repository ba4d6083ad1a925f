"""Placement by layer: ops are grouped by module path down to the first number, and successive layers with the same
device share a row."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from placewright.plans.record import Plan, ScheduledOp

#: A layer belongs to the device that takes this share of its time.
_OWNED = 0.9
#: Layers of one name that change their device more often than this share one row: nobody places so many by hand.
_MAX_CHANGES = 12
#: Path components that name a layer where none of them is a number.
_DEPTH = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerPlacement:
    """Ops of one layer, or of successive numbered layers with the same device: "encoder.layer.0-5".

    device: where at least nine tenths of their time is spent (of their number, if all take no time); -1 if no device
    has that share. num_ops, time_ns: per device.
    """

    name: str
    device: int
    num_ops: tuple[int, ...]
    time_ns: tuple[int, ...]


def place_layers(plan: Plan) -> tuple[LayerPlacement, ...]:
    """List every layer: names by when the middle of their forward ops runs, numbers ascending. Ops without a module are
    left out."""
    members: defaultdict[str, defaultdict[int, list[ScheduledOp]]] = defaultdict(lambda: defaultdict(list))
    for op in plan.ops:
        if op.module:
            name, number = _layer_of(op.module)
            members[name][number].append(op)
    return tuple(
        _placement(plan, _label(name, run), [op for number in run for op in members[name][number]])
        for name in sorted(members, key=lambda name: _middle(members[name].values()))
        for run in _runs(plan, members[name])
    )


def _runs(plan: Plan, members: Mapping[int, Sequence[ScheduledOp]]) -> list[list[int]]:
    """Group successive numbers of layers on one device; one group of all numbers if there would be too many."""
    numbers = sorted(members)
    runs = [list(run) for _, run in groupby(numbers, lambda number: _owner(plan, members[number]))]
    return runs if len(runs) <= _MAX_CHANGES else [numbers]


def _middle(layers: Iterable[Sequence[ScheduledOp]]) -> int:
    """Return the middle position of the forward ops, or of all ops where none is forward. Single ops, such as one that
    fills a mask, may run long before their layer, so the first position would mislead."""
    ops = [op for layer in layers for op in layer]
    positions = sorted(op.position for op in ops if op.phase == "forward") or sorted(op.position for op in ops)
    return positions[len(positions) // 2]


def _layer_of(module: str) -> tuple[str, int]:
    """Split a module path at its first number: "encoder.layer.3.output" gives ("encoder.layer", 3),
    "bert.embeddings.words" gives ("bert.embeddings", -1)."""
    parts = module.split(".")
    for place, part in enumerate(parts):
        if part.isascii() and part.isdigit() and len(part) < 10:
            return ".".join(parts[:place]), int(part)
    return ".".join(parts[:_DEPTH]), -1


def _label(name: str, numbers: Sequence[int]) -> str:
    if numbers[0] < 0:
        return name
    span = str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]}-{numbers[-1]}"
    return f"{name}.{span}" if name else span


def _placement(plan: Plan, label: str, ops: Sequence[ScheduledOp]) -> LayerPlacement:
    counts, times = _totals(plan, ops)
    return LayerPlacement(name=label, device=_owner(plan, ops), num_ops=tuple(counts), time_ns=tuple(times))


def _owner(plan: Plan, ops: Sequence[ScheduledOp]) -> int:
    counts, times = _totals(plan, ops)
    weights = times if any(times) else counts
    most = max(weights)
    return weights.index(most) if most >= _OWNED * sum(weights) else -1


def _totals(plan: Plan, ops: Iterable[ScheduledOp]) -> tuple[list[int], list[int]]:
    """Return the number of ops and their time, per device."""
    counts, times = [0] * plan.machine.num_devices, [0] * plan.machine.num_devices
    for op in ops:
        counts[op.device] += 1
        times[op.device] += op.finish_ns - op.start_ns
    return counts, times
