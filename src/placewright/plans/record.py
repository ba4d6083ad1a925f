"""The plan: what runs where, in what order, when tensors move, and what that costs; self-contained, so that it can be
saved, shown and compared without the graph it was made for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from placewright.bounds.bound import BoundReason
from placewright.costs.estimate import TimeSources
from placewright.machine import Machine
from placewright.problem.objective import ControlMode, Metrics, Objective, Status
from placewright.support.quantities import counted, format_bytes, format_time_ns

BufferKind = Literal["tensor", "copy", "resident", "workspace"]
SCHEMA_VERSION = 2
#: waits_for of a step that starts at 0, and of one that starts when its host thread has launched it.
STARTS_AT_ZERO, WAITS_FOR_LAUNCH = -1, -2


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledOp:
    """One op of the plan. Views are not listed: they take no time and stand on their base's device.

    position: place in the total order over ops and transfers. device: index into machine.devices.
    waits_for: position of the step whose finish (or arrival) decided this start; -1 when it starts at 0, -2 when its
        host thread's launch of it did.
    output_bytes: memory its outputs take on the device.
    """

    name: str
    kind: str
    module: str
    phase: str
    source: str
    device: int
    position: int
    start_ns: int
    finish_ns: int
    waits_for: int
    output_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """Moves one tensor once to one other device. position, waits_for: as in ScheduledOp."""

    tensor: str
    producer: str
    source: int
    destination: int
    size_bytes: int
    position: int
    start_ns: int
    finish_ns: int
    waits_for: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Buffer:
    """Memory held on a device from allocated_ns to freed_ns: a tensor at home, its copy on another device, a resident
    parameter or constant, or the workspace of an op (named as the op). op: the op it belongs to ("" for residents).
    At equal times the events' order is that of the memory curve."""

    name: str
    kind: BufferKind
    op: str
    device: int
    size_bytes: int
    allocated_ns: int
    freed_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryCurve:
    """Memory in use on one device after each event, in the order of events: time_ns[i] -> bytes_in_use[i]; the first
    point is (0, residents). Its maximum is the device's peak."""

    time_ns: tuple[int, ...]
    bytes_in_use: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineOutcome:
    """What one method reached on this problem; metrics is None, with the reason in note, when it has no answer."""

    name: str
    metrics: Metrics | None
    seconds: float
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OneDevice:
    """What the best single device reaches: what a plan is compared with.

    device: its index. order: the method whose order runs there, "input-order" for the captured one. num_elsewhere: ops
    that pins, forbidden devices or groups keep off it. Where metrics are over the limit, no order tried fits a device.
    """

    device: int
    order: str
    num_elsewhere: int
    metrics: Metrics


@dataclass(frozen=True, kw_only=True, repr=False)
class Plan:
    """Placement, order, transfers, times and memory for one problem, with the evidence of how it was found.

    graph_name, graph_fingerprint, num_graph_ops: of the graph (views included) the plan is for.
    memory_limits_bytes: per device, the smaller of capacity and the user's limit; None for no limit.
    ops, transfers: each sorted by position. buffers: sorted by (device, allocated_ns).
    baselines: every baseline that ran; the plan is no worse than any of them.
    lower_bound: proven bound on the objective, in ns or bytes; bound_reason says which bound it is; only
        the solver's own word stands for one it proved.
    memory_floor_bytes: proven: every plan needs at least this much on its fullest device.
    solver: the method asked for; found_by: the part of it that found the plan. evaluations: spent in all.
    stopped_because: "evaluations", "time", "interrupted", "complete" (the method had nothing more to do), or, proven by
        a bound, "optimal" or "infeasible".
    configuration: options of the run, JSON values only. version: of placewright.
    time_sources: where the times of the ops come from; None where that is not known.
    one_device: what the best single device reaches; None where that is not known.
    input_order_memory: memory over time of baseline "input-order" on its fullest device, where the objective is peak
        memory and that baseline ran; else None.
    """

    graph_name: str
    graph_fingerprint: str
    num_graph_ops: int
    machine: Machine
    objective: Objective
    control: ControlMode
    memory_limits_bytes: tuple[int | None, ...]
    ops: tuple[ScheduledOp, ...]
    transfers: tuple[Transfer, ...]
    buffers: tuple[Buffer, ...]
    memory_curves: tuple[MemoryCurve, ...]
    metrics: Metrics
    baselines: tuple[BaselineOutcome, ...]
    lower_bound: int
    bound_reason: BoundReason
    memory_floor_bytes: int
    status: Status
    solver: str
    found_by: str
    seed: int
    evaluations: int
    seconds: float
    stopped_because: str
    configuration: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    version: str = ""
    time_sources: TimeSources | None = None
    one_device: OneDevice | None = None
    input_order_memory: MemoryCurve | None = None

    def __eq__(self, other: object) -> bool:
        """Two plans of equal fields are equal, whether or not either can be asked questions (`api.questions.Plan`)."""
        return vars(self) == vars(other) if isinstance(other, Plan) else NotImplemented

    def __repr__(self) -> str:
        what = f"{self.graph_name!r} on {self.machine.name!r}"
        reached = f"{format_time_ns(self.step_time_ns)}, peak {format_bytes(self.metrics.peak_memory_bytes)}"
        return f"Plan({what}: {self.status}, {reached}, {counted(len(self.ops), 'op')})"

    @property
    def step_time_ns(self) -> int:
        """When the last op finishes."""
        return self.metrics.step_time_ns

    @property
    def peak_bytes(self) -> tuple[int, ...]:
        """Largest memory in use, per device."""
        return self.metrics.peak_bytes

    @property
    def device_of(self) -> dict[str, int]:
        """Device index of every scheduled op, by name."""
        return {op.name: op.device for op in self.ops}

    @property
    def gap(self) -> float:
        """How far the objective may be from optimal: value / lower_bound - 1; infinite when the bound is 0."""
        value = self.metrics.objective_value(self.objective)
        return value / self.lower_bound - 1 if self.lower_bound else (0.0 if value == 0 else float("inf"))

    @property
    def gain(self) -> float | None:
        """Share of the objective that the plan saves against the best single device, negative where that is better;
        None where no single device fits or none is known, and where the plan does not fit."""
        one = self.one_device
        if one is None or one.metrics.bytes_over_limit or self.metrics.bytes_over_limit:
            return None
        value = one.metrics.objective_value(self.objective)
        return 1 - self.metrics.objective_value(self.objective) / value if value else None
