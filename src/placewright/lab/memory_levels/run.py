"""The interface of solvers of maps: a solver, its best map so far, and its result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from placewright.lab.memory_levels.problem import Levels, MemoryProblem
from placewright.problem.objective import StopReason
from placewright.search.run.result import TracePoint
from placewright.search.run.search_run import SearchRun
from placewright.support.errors import InputError


@dataclass(frozen=True, kw_only=True, eq=False)
class MapResult:
    """The result of a solver.

    levels fits, and latency_ps is its latency. found_by names the part of the solver that found it; stopped_because as
    in Plan. bound_ps: a lower bound on the latency of every map, for the reason in bound_reason. baselines: latency in
    ps of solvers that ran inside, by name.
    """

    solver: str
    levels: Levels
    latency_ps: int
    found_by: str
    evaluations: int
    seconds: float
    stopped_because: StopReason
    seed: int
    configuration: Mapping[str, Any] = field(default_factory=dict)
    trace: tuple[TracePoint, ...] = ()
    bound_ps: int = 0
    bound_reason: str = ""
    baselines: Mapping[str, int] = field(default_factory=dict)


class MapSolver(Protocol):
    """A solver that maps tensors. The same problem, seed and evaluations give the same map."""

    @property
    def name(self) -> str: ...

    def solve(self, problem: MemoryProblem, run: SearchRun) -> MapResult:
        """Return the best map found within the run's budget."""
        ...


class BestMap:
    """The best map that was offered in a run, whose budget the offers spend."""

    def __init__(self, problem: MemoryProblem, run: SearchRun, solver: str) -> None:
        self.problem, self.run, self.solver = problem, run, solver
        self.levels: Levels | None = None
        self.latency_ps, self.found_by = 0, ""

    def offer(self, levels: Levels, found_by: str | None = None, *, evaluations: int = 1) -> int:
        """Rectify and time a map, count that as so many evaluations, and keep it where it is the best; return its
        latency."""
        latency, _, fitting = self.problem.evaluate_one(levels)
        self.take(fitting, latency, found_by, evaluations=evaluations)
        return latency

    def take(self, fitting: Levels, latency_ps: int, found_by: str | None = None, *, evaluations: int = 0) -> None:
        """Keep a map that was timed already, where it is the best."""
        if self.levels is None or latency_ps < self.latency_ps:
            self.levels, self.latency_ps = np.array(fitting), latency_ps
            self.found_by = found_by or self.solver
        self.run.report(self.solver, self.latency_ps, 0, evaluations=evaluations)

    def result(self, stopped_because: StopReason, **beside: Any) -> MapResult:
        """Return the solver's result. beside: fields of the result that are not in the run: configuration, bounds."""
        if self.levels is None:
            raise InputError(f"solver '{self.solver}' made no map")
        return MapResult(
            solver=self.solver,
            levels=self.levels,
            latency_ps=self.latency_ps,
            found_by=self.found_by,
            evaluations=self.run.evaluations,
            seconds=self.run.seconds,
            stopped_because=stopped_because,
            seed=self.run.seed,
            trace=tuple(self.run.trace),
            **beside,
        )
