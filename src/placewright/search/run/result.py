"""The result of a method: the solution and the evidence for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from placewright.problem import Problem
from placewright.problem.objective import Metrics, StopReason, largest_peak
from placewright.support.arrays import sorted_unique
from placewright.support.quantities import counted, format_bytes, format_time_ns


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Solution:
    """A complete solution, in the indices of `problem.lowered`.

    device_of: int32 [num scheduled ops]. order: int32 [num steps, 2]; a row is (op, -1) or (tensor, destination).
    """

    device_of: NDArray[np.int32]
    order: NDArray[np.int32]

    def __repr__(self) -> str:
        used = len(sorted_unique(self.device_of))
        return f"Solution({counted(len(self.device_of), 'op')} on {counted(used, 'device')})"


@dataclass(frozen=True, slots=True, kw_only=True)
class TracePoint:
    """The best so far at one time: evaluations and seconds, its objective and bytes over the limit."""

    evaluations: int
    seconds: float
    best: int
    bytes_over_limit: int


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Result:
    """A solution with its metrics under the problem's own simulation.

    found_by: the part of the method that found it. stopped_because: as in Plan. baselines: the results of methods that
    ran inside this one, which it is no worse than. proven_bound: a lower bound on the objective that the method itself
    proved; None if it proved none.
    """

    method: str
    solution: Solution
    metrics: Metrics
    found_by: str
    evaluations: int
    seconds: float
    stopped_because: StopReason
    seed: int
    configuration: Mapping[str, Any] = field(default_factory=dict)
    trace: tuple[TracePoint, ...] = ()
    baselines: tuple[Result, ...] = ()
    proven_bound: int | None = None

    def __repr__(self) -> str:
        reached = f"{format_time_ns(self.metrics.step_time_ns)}, peak {format_bytes(self.metrics.peak_memory_bytes)}"
        over = self.metrics.bytes_over_limit
        excess = f", {format_bytes(over)} over the memory limits" if over else ""
        return f"Result({self.method!r}: {reached}{excess}, {counted(self.evaluations, 'evaluation')})"


def fitness_in(problem: Problem) -> Callable[[Result], tuple[int, int, int]]:
    """Return a key that sorts results of that problem, the best first."""
    return lambda result: result.metrics.fitness(problem.objective)


def measure(problem: Problem, solution: Solution) -> Metrics:
    """Simulate a whole solution and collect its costs."""
    outcome = problem.core.simulate(solution.device_of, solution.order)
    lowered = problem.lowered
    own_time = problem.time_ns[lowered.graph_op, solution.device_of]
    busy = np.zeros(problem.machine.num_devices, np.int64)
    np.add.at(busy, solution.device_of, own_time)
    transfers = solution.order[solution.order[:, 1] >= 0]
    peaks = tuple(int(x) for x in outcome.peak_bytes)
    return Metrics(
        step_time_ns=outcome.step_time_ns,
        peak_memory_bytes=largest_peak(problem.machine, peaks),
        peak_bytes=peaks,
        busy_ns=tuple(int(x) for x in busy),
        bytes_moved=int(lowered.transfer_bytes[transfers[:, 0]].sum()),
        num_transfers=len(transfers),
        bytes_over_limit=outcome.bytes_over_limit,
    )
