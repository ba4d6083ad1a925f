"""The plan record: placement, order, transfers, and their costs.

It is self-contained, so that it can be saved, shown and compared without its graph.
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
    """One op of the plan. Views are not listed: they take no time and are on their base's device.

    Attributes
    ----------
    name, kind, module, phase, source
        As in the graph.
    device
        Index into `machine.devices`.
    position
        Place in the total order over ops and transfers.
    start_ns, finish_ns
        Start and finish of its run.
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
        Size of the transfer.
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
        Name of the tensor, or of the op that owns the workspace.
    kind
        "tensor" (at home), "copy" (on another device), "resident" (parameter or constant) or "workspace".
    op
        The op it belongs to; "" for residents.
    device
        Index into `machine.devices`.
    size_bytes
        Size of the buffer.
    allocated_ns, freed_ns
        Start and end of its lifetime. At equal times the order of events is that of the memory curve.
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
        Time of each event, in order; the first is 0, with the residents.
    bytes_in_use
        Memory after each event; as many values as times.
    """

    time_ns: tuple[int, ...]
    bytes_in_use: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineOutcome:
    """The result of one method on the problem.

    Attributes
    ----------
    name
        Name of the method.
    metrics
        Costs of its best plan; None where it has no plan.
    seconds
        Time that it took.
    note
        The reason why it has no plan.
    """

    name: str
    metrics: Metrics | None
    seconds: float
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OneDevice:
    """The result of the best single device, with which a plan is compared.

    Attributes
    ----------
    device
        Its index into `machine.devices`.
    order
        The method whose order runs there; "input-order" for the captured order, "input-order, timed alone" for that
        with times that were measured while the other devices were idle, "rematerialization" where ops run again, or
        their results are moved to the host's memory and back.
    num_elsewhere
        Number of ops that pins, forbidden devices or groups keep off it.
    metrics
        Their costs. Where they are over the limit, no order that was tried fits a device.
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
        Name, fingerprint and number of ops of the plan's graph, with the reruns as ops; views are counted.
    machine
        The machine of the plan.
    objective, control
        As `placewright.plan` takes them.
    memory_limits_bytes
        Per device the smaller of its capacity and the user's limit; None for no limit.
    ops, transfers
        Each sorted by position.
    buffers
        Sorted by device, then by time of allocation.
    memory_curves
        One per device.
    metrics
        The costs of the plan.
    baselines
        Every baseline that ran; the plan is no worse than any of them.
    lower_bound
        A proven lower bound on the objective of every valid plan, in ns or bytes. For peak memory, where
        `bound_reason` is tensors alive together or the solver's proof, only of plans in which each op runs once.
    bound_reason
        Name of that bound; "proven by the solver" rests on the solver alone.
    memory_floor_bytes
        A proven lower bound on the memory that every plan needs on its fullest device, whatever ops run again or
        tensors are moved, as far as the configuration allows it.
    status
        "optimal", "feasible", or "infeasible" where it is over a memory limit.
    solver, found_by
        The method asked for, and the part of it that found the plan.
    seed, evaluations, seconds
        Seed of the search, evaluations that it spent, and time that planning took.
    stopped_because
        "evaluations", "time", "interrupted", "complete" (the method had nothing more to do), or, proven by a bound,
        "optimal" or "infeasible".
    configuration
        Options of the run; JSON values only.
    warnings
        Warnings of the importer and the cost model.
    version
        Version of placewright.
    time_sources
        Sources of the ops' times; None where they are not known.
    one_device
        The result of the best single device; None where that is not known.
    input_order_memory
        Memory over time of the baseline "input-order" on its fullest device, where the objective is peak memory and
        that baseline ran; else None.
    reruns
        Ops that run again, so that their results need not be held meanwhile, in their order.
    memory_floor_op
        Where ops may run again: the op that needs `memory_floor_bytes` while it runs, whatever other ops run again.
    moves
        Tensors that are moved to the host's memory and back. Where moves were allowed, the last device is that memory.
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
        """The time at which the last op finishes."""
        return self.metrics.step_time_ns

    @property
    def peak_bytes(self) -> tuple[int, ...]:
        """The most memory in use, per device."""
        return self.metrics.peak_bytes

    @property
    def device_of(self) -> dict[str, int]:
        """The device index of every scheduled op, by name."""
        return {op.name: op.device for op in self.ops}

    @property
    def gap(self) -> float:
        """Upper bound on the relative gap to the optimum: value / lower_bound - 1; infinite where the bound is 0."""
        value = self.metrics.objective_value(self.objective)
        return value / self.lower_bound - 1 if self.lower_bound else (0.0 if value == 0 else float("inf"))

    @property
    def extra_time(self) -> float | None:
        """The time of reruns and moves, as a share of the time of the captured order.

        None where there are none, and on several devices, whose plans are in orders of their own.
        """
        return self._beyond_captured(self.metrics.step_time_ns)

    @property
    def least_extra_time(self) -> float | None:
        """A lower bound on the extra time of every plan within the limits, as a share like `extra_time`.

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
