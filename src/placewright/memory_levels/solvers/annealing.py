"""Annealing of maps that fit, by moves whose cost is found from the few ops that they touch."""

from __future__ import annotations

from dataclasses import dataclass

import placewright._core as _core
from placewright.memory_levels.problem import Levels, MemoryProblem
from placewright.memory_levels.run import BestMap, MapResult
from placewright.memory_levels.solvers.greedy import density_map
from placewright.search.run.drive import drive
from placewright.search.run.search_run import SearchRun, settings_of
from placewright.support.errors import InputError


@dataclass(frozen=True, kw_only=True)
class LevelAnnealing:
    """A tensor moves to another level; where that is full, others make room. It starts from the density greedy.

    Temperatures are relative to the latency of the start.
    """

    name: str = "annealing"
    first_temperature: float = 1e-2
    last_temperature: float = 1e-6

    def __post_init__(self) -> None:
        if not 0 < self.last_temperature <= self.first_temperature < float("inf"):
            raise InputError("temperatures of an annealing must be positive and must not rise")

    def solve(self, problem: MemoryProblem, run: SearchRun) -> MapResult:
        return self.solve_from(problem, run, density_map(problem))

    def solve_from(self, problem: MemoryProblem, run: SearchRun, start: Levels) -> MapResult:
        """As `solve`, from a map of the caller's."""
        best = BestMap(problem, run, self.name)
        search = _core.LevelAnnealing(
            problem=problem.core,
            start=start,
            first_temperature=self.first_temperature,
            last_temperature=self.last_temperature,
            seed=run.seed,
        )
        reason = drive(run, search, self.name, first_batch=256)
        best.take(search.best(), search.best_objective)
        return best.result(reason, configuration=settings_of(self))
