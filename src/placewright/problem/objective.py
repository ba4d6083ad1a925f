"""What is wanted of a schedule, and how good one is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from placewright.machine import Machine
from placewright.support.quantities import format_bytes, format_time_ns

Objective = Literal["step-time", "peak-memory"]
#: As sentences name them.
OBJECTIVE_NAMES: Mapping[Objective, str] = {"step-time": "step time", "peak-memory": "peak memory"}
#: What a control dependency across devices means (docs/semantics.md).
ControlMode = Literal["order", "transfer", "signal"]
Status = Literal["optimal", "feasible", "infeasible"]
#: Why a search ended: its budget, the user, nothing more to do; or, proven by a bound, nothing better to be found.
StopReason = Literal["evaluations", "time", "interrupted", "complete", "optimal", "infeasible"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """What a schedule costs.

    Attributes
    ----------
    step_time_ns
        When the last op finishes.
    peak_memory_bytes
        The largest of `peak_bytes`, that of the host's memory left out.
    peak_bytes
        Per device the most memory in use.
    busy_ns
        Per device the time it computes.
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
        """Return `step_time_ns` or `peak_memory_bytes`, whichever counts.

        Parameters
        ----------
        objective
            What counts.
        """
        return self.step_time_ns if objective == "step-time" else self.peak_memory_bytes

    def fitness(self, objective: Objective) -> tuple[int, int, int]:
        """Return a key to compare by: bytes over the limit, then the objective, then the other one; less is better.

        Parameters
        ----------
        objective
            What counts.
        """
        values = (self.step_time_ns, self.peak_memory_bytes)
        return (self.bytes_over_limit, *(values if objective == "step-time" else values[::-1]))


def format_objective(objective: Objective, value: int) -> str:
    """A value of the objective with its unit."""
    return format_time_ns(value) if objective == "step-time" else format_bytes(value)


def status_of(objective_value: int, bytes_over_limit: int, bound: int | None) -> Status:
    """Decide what may be said of a plan, or of the best of a search that is under way.

    A plan over its limits is never optimal, whatever it meets.

    Parameters
    ----------
    objective_value
        What the plan reaches, in ns or bytes.
    bytes_over_limit
        As in `Metrics`.
    bound
        A proven bound on the objective; None where none is known.
    """
    if bytes_over_limit > 0:
        return "infeasible"
    return "optimal" if bound is not None and objective_value <= bound else "feasible"


def largest_peak(machine: Machine, peak_bytes: Sequence[int]) -> int:
    """The largest of the peaks of a machine's devices; the host's memory, to which tensors move, does not count."""
    return peak_bytes[fullest_first(machine, peak_bytes)[0]]


def fullest_first(machine: Machine, peak_bytes: Sequence[int]) -> list[int]:
    """The devices of a machine by their peaks, the largest first, and the host's memory behind all that compute."""
    devices = machine.devices
    return sorted(range(len(devices)), key=lambda device: (devices[device].is_host, -peak_bytes[device]))
