"""The plan: what runs where, in what order, when tensors move, and what that costs.

It is self-contained, so that it can be saved, shown and compared without the graph it was made for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from placewright.bounds.bound import BoundReason
from placewright.costs.estimate import TimeSources
from placewright.machine import Machine
from placewright.machines.host import parted
from placewright.problem.objective import ControlMode, Metrics, Objective, Status
from placewright.rematerialization.reruns import Move, Rerun
from placewright.support.quantities import counted, format_bytes, format_time_ns

BufferKind = Literal["tensor", "copy", "resident", "workspace"]
SCHEMA_VERSION = 2
#: waits_for of a step that starts at 0, and of one that starts when its host thread has launched it.
STARTS_AT_ZERO, WAITS_FOR_LAUNCH = -1, -2


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledOp:
    """One op of the plan. Views are not listed: they take no time and stand on their base's device.

    Attributes
    ----------
    name, kind, module, phase, source
        As in the graph.
    device
        Index into `machine.devices`.
    position
        Place in the total order over ops and transfers.
    start_ns, finish_ns
        When it runs.
    waits_for
        Position of the step whose finish (or arrival) decided the start; -1 where it starts at 0, -2 where the launch
        by its host thread decided.
    output_bytes
        Memory that its outputs take on the device.
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
    """Moves one tensor once to one other device.

    Attributes
    ----------
    tensor, producer
        Names of the tensor and of the op that makes it.
    source, destination
        Indices into `machine.devices`.
    size_bytes
        What is moved.
    position, start_ns, finish_ns, waits_for
        As in `ScheduledOp`.
    """

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
    """Memory held on a device for a while.

    Attributes
    ----------
    name
        Of the tensor, or of the op whose workspace it is.
    kind
        "tensor" (at home), "copy" (on another device), "resident" (parameter or constant) or "workspace".
    op
        The op it belongs to; "" for residents.
    device
        Index into `machine.devices`.
    size_bytes
        Its size.
    allocated_ns, freed_ns
        From when to when it is held. At equal times the order of events is that of the memory curve.
    """

    name: str
    kind: BufferKind
    op: str
    device: int
    size_bytes: int
    allocated_ns: int
    freed_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryCurve:
    """Memory in use on one device after each event; its maximum is the device's peak.

    Attributes
    ----------
    time_ns
        Of each event, in their order; the first is 0, with the residents.
    bytes_in_use
        After each event; as many as times.
    """

    time_ns: tuple[int, ...]
    bytes_in_use: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineOutcome:
    """What one method reached on the problem.

    Attributes
    ----------
    name
        Of the method.
    metrics
        What its best plan costs; None where it has no plan.
    seconds
        How long it took.
    note
        Why it has no plan.
    """

    name: str
    metrics: Metrics | None
    seconds: float
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OneDevice:
    """What the best single device reaches: what a plan is compared with.

    Attributes
    ----------
    device
        Its index into `machine.devices`.
    order
        The method whose order runs there; "input-order" for the captured one, "input-order, timed alone" for that
        with times that were measured while the other devices were idle, "rematerialization" where ops run again, or
        what they make is moved to the host's memory and back.
    num_elsewhere
        How many ops pins, forbidden devices or groups keep off it.
    metrics
        What that costs. Where they are over the limit, no order that was tried fits a device.
    """

    device: int
    order: str
    num_elsewhere: int
    metrics: Metrics


@dataclass(frozen=True, kw_only=True, repr=False)
class Plan:
    """Placement, order, transfers, times and memory for one problem, with the evidence of how it was found.

    Tuples per device are indexed like `machine.devices`.

    Attributes
    ----------
    graph_name, graph_fingerprint, num_graph_ops
        Of the graph that the plan is for, with the reruns as ops; views are counted.
    machine
        The machine that it is for.
    objective, control
        As `placewright.plan` takes them.
    memory_limits_bytes
        Per device the smaller of its capacity and the user's limit; None for no limit.
    ops, transfers
        Each sorted by position.
    buffers
        Sorted by device, then by when they are allocated.
    memory_curves
        Per device.
    metrics
        What the plan costs.
    baselines
        Every baseline that ran; the plan is no worse than any of them.
    lower_bound
        No valid plan has less of the objective, in ns or bytes: a proven bound. Of peak memory, where `bound_reason` is
        what is alive together or the word of the solver, no plan in which each op runs once.
    bound_reason
        Which bound that is; "proven by the solver" is the word of the solver alone.
    memory_floor_bytes
        Every plan needs at least this much on its fullest device, whatever runs again or is moved as far as the
        configuration lets it: a proven bound.
    status
        "optimal", "feasible", or "infeasible" where it is over a memory limit.
    solver, found_by
        The method asked for, and the part of it that found the plan.
    seed, evaluations, seconds
        Of the search: its seed, the evaluations it spent and how long planning took.
    stopped_because
        "evaluations", "time", "interrupted", "complete" (the method had nothing more to do), or, proven by a bound,
        "optimal" or "infeasible".
    configuration
        Options of the run; JSON values only.
    warnings
        Of the importer and the cost model.
    version
        Of placewright.
    time_sources
        Where the times of the ops come from; None where that is not known.
    one_device
        What the best single device reaches; None where that is not known.
    input_order_memory
        Memory over time of the baseline "input-order" on its fullest device, where the objective is peak memory and
        that baseline ran; else None.
    reruns
        Ops that run again, so that what they make need not be held meanwhile, in their order.
    memory_floor_op
        Where ops may run again: the op that needs `memory_floor_bytes` while it runs, whatever else runs again.
    moves
        Tensors that are moved to the host's memory and back. Where they were allowed, the last device is that memory.
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
    reruns: tuple[Rerun, ...] = ()
    memory_floor_op: str = ""
    moves: tuple[Move, ...] = ()

    def __eq__(self, other: object) -> bool:
        """Compare all fields, whether or not either plan can be asked questions (`api.questions.Plan`)."""
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
        """Per device the most memory in use."""
        return self.metrics.peak_bytes

    @property
    def device_of(self) -> dict[str, int]:
        """Device index of every scheduled op, by name."""
        return {op.name: op.device for op in self.ops}

    @property
    def gap(self) -> float:
        """How far the objective may be above the optimum: value / lower_bound - 1; infinite where the bound is 0."""
        value = self.metrics.objective_value(self.objective)
        return value / self.lower_bound - 1 if self.lower_bound else (0.0 if value == 0 else float("inf"))

    @property
    def extra_time(self) -> float | None:
        """Share of the time of the captured order that reruns and moves cost.

        None where there are none, and on several devices, whose plans are in orders of their own.
        """
        return self._beyond_captured(self.metrics.step_time_ns)

    @property
    def least_extra_time(self) -> float | None:
        """What every plan within the limits costs at least, as a share like `extra_time`.

        None where nothing is proven, as where the bound is below the time of the captured order.
        """
        if self.objective != "step-time" or self.metrics.bytes_over_limit:
            return None
        least = self._beyond_captured(self.lower_bound)
        return None if least is None or least < 0 else least

    def _beyond_captured(self, time_ns: int) -> float | None:
        captured = self.one_device
        if not (self.reruns or self.moves) or captured is None or not captured.metrics.step_time_ns:
            return None
        if parted(self.machine)[0].num_devices > 1:
            return None
        return time_ns / captured.metrics.step_time_ns - 1

    @property
    def gain(self) -> float | None:
        """Share of the objective that the plan saves against the best single device.

        It is negative where that device is better, and None where none fits or is known, or the plan does not fit.
        """
        one = self.one_device
        if one is None or one.metrics.bytes_over_limit or self.metrics.bytes_over_limit:
            return None
        value = one.metrics.objective_value(self.objective)
        return 1 - self.metrics.objective_value(self.objective) / value if value else None
