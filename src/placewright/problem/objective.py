"""What is wanted of a schedule, and how good one is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Objective = Literal["step-time", "peak-memory"]
#: What a control dependency across devices means (docs/semantics.md).
ControlMode = Literal["order", "transfer", "signal"]
Status = Literal["optimal", "feasible", "infeasible"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """What a schedule costs. Per-device tuples are indexed like machine.devices.

    busy_ns: time each device computes. bytes_moved, num_transfers: over all links.
    bytes_over_limit: sum over devices of peak minus limit where positive; 0 means feasible.
    """

    step_time_ns: int
    peak_memory_bytes: int
    peak_bytes: tuple[int, ...]
    busy_ns: tuple[int, ...]
    bytes_moved: int
    num_transfers: int
    bytes_over_limit: int

    def objective_value(self, objective: Objective) -> int:
        """step_time_ns or peak_memory_bytes."""
        return self.step_time_ns if objective == "step-time" else self.peak_memory_bytes

    def fitness(self, objective: Objective) -> tuple[int, int, int]:
        """Sort key, less is better: bytes over the limit, then the objective, then the other objective."""
        values = (self.step_time_ns, self.peak_memory_bytes)
        return (self.bytes_over_limit, *(values if objective == "step-time" else values[::-1]))


def status_of(objective_value: int, bytes_over_limit: int, bound: int | None) -> Status:
    """What may be said of a plan, or of the best of a search that is under way; decided here and nowhere else. bound:
    proven, of the objective; None where none is known. A plan over its limits is never optimal, whatever it meets."""
    if bytes_over_limit > 0:
        return "infeasible"
    return "optimal" if bound is not None and objective_value <= bound else "feasible"
