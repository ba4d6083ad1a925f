"""The problem: an immutable combination of a graph and a machine with an objective, limits and constraints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

import placewright._core as _core
from placewright.costs import estimate_costs
from placewright.graph import Graph
from placewright.machine import Device, Machine
from placewright.problem.constraints import Constraints, placement_groups
from placewright.problem.lowering import Lowered, lower
from placewright.problem.objective import ControlMode, Objective
from placewright.support.errors import InputError, did_you_mean
from placewright.support.quantities import QUANTITY_LIMIT


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Problem:
    """The problem that a method solves.

    time_ns: int64 [num graph ops, num devices], from the cost model.
    memory_limits_bytes: per device; None for no limit.
    control: the meaning of a control dependency across devices (docs/semantics.md).
    without_formula: names of ops whose time is a guess; plans warn of them.
    time_origin: a `costs.TimeOrigin` for each of time_ns, which plans count; None where it is not known.

    Raises InputError when shapes disagree, constraints contradict, or sums of times or sizes could overflow.
    """

    graph: Graph
    machine: Machine
    time_ns: NDArray[np.int64]
    objective: Objective = "step-time"
    control: ControlMode = "signal"
    memory_limits_bytes: tuple[int | None, ...] = ()
    constraints: Constraints = field(default_factory=Constraints)
    without_formula: tuple[str, ...] = ()
    time_origin: NDArray[np.int8] | None = None

    def __post_init__(self) -> None:
        if not self.memory_limits_bytes:
            object.__setattr__(self, "memory_limits_bytes", tuple(d.memory_bytes for d in self.machine.devices))
        if len(self.memory_limits_bytes) != self.machine.num_devices:
            raise InputError(
                f"{len(self.memory_limits_bytes)} memory limits given for {self.machine.num_devices} devices"
            )
        for limit in self.memory_limits_bytes:
            if limit is not None and not (type(limit) is int and 0 <= limit < QUANTITY_LIMIT):
                raise InputError(f"a memory limit of {limit} is not a whole number of bytes from 0 to 2**62 - 1")
        if all(op.kind == "view" for op in self.graph.ops):
            raise InputError(f"graph '{self.graph.name}' has nothing to schedule: all its ops are views")
        if self.time_ns.shape != (len(self.graph.ops), self.machine.num_devices):
            raise InputError(f"op times have shape {self.time_ns.shape}, not one row per op and one column per device")
        if self.objective not in get_args(Objective):
            known = did_you_mean(str(self.objective), get_args(Objective))
            raise InputError(f"unknown objective '{self.objective}'{known}")
        if self.control not in get_args(ControlMode):
            known = did_you_mean(str(self.control), get_args(ControlMode))
            raise InputError(f"unknown control mode '{self.control}'{known}")
        _check_sums(self)

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields alone: derived values, such as the core, stay in their process."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def __repr__(self) -> str:
        return f"Problem({self.graph!r}, {self.machine!r}, {self.objective})"

    @cached_property
    def lowered(self) -> Lowered:
        """The graph as the core sees it: views folded away, indices of scheduled ops and tensors."""
        return lower(self.graph, self.control)

    @cached_property
    def groups(self) -> tuple[NDArray[np.int32], NDArray[np.uint64]]:
        """The first op of each scheduled op's group, which shares a device, and the bit mask of devices that it may
        use."""
        return placement_groups(self.graph, self.lowered, self.machine, self.constraints)

    @cached_property
    def core(self) -> _core.Problem:
        """The C++ problem, built once."""
        lowered = self.lowered
        return core_of(
            lowered,
            self.machine,
            np.ascontiguousarray(self.time_ns[list(lowered.graph_op)]),
            self.groups,
            self.memory_limits_bytes,
            signals=self.control == "signal",
            minimize_memory=self.objective == "peak-memory",
        )


def core_of(
    lowered: Lowered,
    machine: Machine,
    time_ns: NDArray[np.int64],
    groups: tuple[NDArray[np.int32], NDArray[np.uint64]],
    memory_limits_bytes: Sequence[int | None],
    *,
    signals: bool = False,
    minimize_memory: bool = False,
) -> _core.Problem:
    """Build the C++ problem of lowered ops. time_ns: int64 [num scheduled ops, num devices]. groups: as
    `Problem.groups`."""
    return _core.Problem(
        num_devices=machine.num_devices,
        op_time_ns=time_ns,
        workspace_bytes=lowered.workspace_bytes,
        output_begin=lowered.output_begin,
        transfer_bytes=lowered.transfer_bytes,
        copy_bytes=lowered.copy_bytes,
        allocated_bytes=lowered.allocated_bytes,
        storage=lowered.storage,
        live_out=lowered.live_out,
        input_begin=lowered.input_begin,
        inputs=lowered.inputs,
        control_begin=lowered.control_begin,
        controls=lowered.controls,
        resident_begin=lowered.resident_begin,
        residents=lowered.residents,
        resident_bytes=lowered.resident_bytes,
        group=groups[0],
        allowed=groups[1],
        latency_ns=np.array([[link.latency_ns for link in row] for row in machine.links], np.int64),
        inverse_bandwidth=np.array([[link.inverse_bandwidth for link in row] for row in machine.links], np.int64),
        memory_limit=np.array([QUANTITY_LIMIT if x is None else x for x in memory_limits_bytes], np.int64),
        host_of=np.array(machine.hosts, np.int32),
        launch_ns=np.array([device.launch_overhead_ns for device in machine.devices], np.int64),
        blocking=machine.transfer_model == "blocking",
        signals=signals,
        minimize_memory=minimize_memory,
    )


def _check_sums(problem: Problem) -> None:
    """Check that no total in the simulation can reach 2**62."""
    machine, tensors = problem.machine, problem.graph.tensors
    if problem.time_ns.size and int(problem.time_ns.min()) < 0:
        raise InputError(f"graph '{problem.graph.name}' has an op with a negative time")
    links = [link for row in machine.links for link in row]
    total_bytes = sum(max(tensor.size_bytes, tensor.held_bytes) for tensor in tensors) + sum(
        op.workspace_bytes for op in problem.graph.ops
    )
    slowest = max(link.inverse_bandwidth for link in links)
    transfer_ns = total_bytes * slowest // 2**32 + (len(tensors) + len(problem.graph.ops)) * (
        1 + max(link.latency_ns for link in links)
    )
    compute_ns = sum(problem.time_ns.max(axis=1).tolist())
    num_launches = len(problem.graph.ops) + (len(tensors) + len(problem.graph.ops)) * machine.num_devices
    launch_ns = num_launches * max(device.launch_overhead_ns for device in machine.devices)
    if compute_ns + transfer_ns * machine.num_devices + launch_ns >= QUANTITY_LIMIT:
        raise InputError(
            f"graph '{problem.graph.name}': the times of ops, transfers and launches add up to more than 2**62 ns"
        )
    if total_bytes * machine.num_devices >= QUANTITY_LIMIT:
        raise InputError(f"graph '{problem.graph.name}': the sizes of tensors add up to more than 2**62 bytes")


def make_problem(
    graph: Graph,
    machine: Machine,
    *,
    objective: Objective = "step-time",
    control: ControlMode = "signal",
    memory_limit: int | Mapping[str, int] | None = None,
    constraints: Constraints | None = None,
    measured: str | Path | None = None,
) -> Problem:
    """Cost the graph on the machine and add limits and constraints. memory_limit: bytes, for every device or by the
    names of the limited ones."""

    def limit_of(device: Device) -> int | None:
        given = memory_limit.get(device.name) if isinstance(memory_limit, Mapping) else memory_limit
        return min((size for size in (device.memory_bytes, given) if size is not None), default=None)

    limits = [limit_of(device) for device in machine.devices]
    costs = estimate_costs(graph, machine, Path(measured) if measured is not None else None)
    return Problem(
        graph=graph,
        machine=machine,
        time_ns=costs.time_ns,
        objective=objective,
        control=control,
        memory_limits_bytes=tuple(limits),
        constraints=constraints or Constraints(),
        without_formula=costs.without_formula,
        time_origin=costs.origin,
    )
