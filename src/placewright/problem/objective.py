"""Objectives of planning, and the metrics of a schedule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from placewright.machine import Machine
from placewright.support.quantities import format_bytes, format_time_ns

Objective = Literal["step-time", "peak-memory"]
#: The names of the objectives in sentences.
OBJECTIVE_NAMES: Mapping[Objective, str] = {"step-time": "step time", "peak-memory": "peak memory"}
#: The meaning of a control dependency across devices (docs/semantics.md).
ControlMode = Literal["order", "transfer", "signal"]
Status = Literal["optimal", "feasible", "infeasible"]
#: Why a search ended: its budget, the user, nothing left to try; or, by a bound, the plan is optimal or none fits.
StopReason = Literal["evaluations", "time", "interrupted", "complete", "optimal", "infeasible"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """The costs of a schedule.

    Attributes
    ----------
    step_time_ns
        The time at which the last op finishes.
    peak_memory_bytes
        The largest of `peak_bytes`, without that of the host's memory.
    peak_bytes
        The most memory in use, per device.
    busy_ns
        The time in which each device computes.
    bytes_moved, num_transfers
        Over all links.
    bytes_over_limit
        Sum over the devices of peak minus limit where that is positive; 0 where the plan fits.
    """

    step_time_ns: int
    peak_memory_bytes: int
    peak_bytes: tuple[int, ...]
    busy_ns: tuple[int, ...]
    bytes_moved: int
    num_transfers: int
    bytes_over_limit: int

    def objective_value(self, objective: Objective) -> int:
        """Return `step_time_ns` or `peak_memory_bytes`, whichever is the objective.

        Parameters
        ----------
        objective
            The objective.
        """
        return self.step_time_ns if objective == "step-time" else self.peak_memory_bytes

    def fitness(self, objective: Objective) -> tuple[int, int, int]:
        """Return a key to compare by: bytes over the limit, then the objective, then the other one; less is better.

        Parameters
        ----------
        objective
            The objective.
        """
        values = (self.step_time_ns, self.peak_memory_bytes)
        return (self.bytes_over_limit, *(values if objective == "step-time" else values[::-1]))


def format_objective(objective: Objective, value: int) -> str:
    """Format a value of the objective with its unit."""
    return format_time_ns(value) if objective == "step-time" else format_bytes(value)


def status_of(objective_value: int, bytes_over_limit: int, bound: int | None) -> Status:
    """Decide the status of a plan, or of the best one of a search under way.

    A plan over its limits is never optimal, whatever bound it meets.

    Parameters
    ----------
    objective_value
        The plan's objective, in ns or bytes.
    bytes_over_limit
        As in `Metrics`.
    bound
        A proven bound on the objective; None where none is known.
    """
    if bytes_over_limit > 0:
        return "infeasible"
    return "optimal" if bound is not None and objective_value <= bound else "feasible"


def largest_peak(machine: Machine, peak_bytes: Sequence[int]) -> int:
    """Return the largest peak of a machine's devices, without the host's memory, to which tensors are moved."""
    return peak_bytes[fullest_first(machine, peak_bytes)[0]]


def fullest_first(machine: Machine, peak_bytes: Sequence[int]) -> list[int]:
    """List the devices of a machine by their peaks, the largest first, with the host's memory last."""
    devices = machine.devices
    return sorted(range(len(devices)), key=lambda device: (devices[device].is_host, -peak_bytes[device]))
