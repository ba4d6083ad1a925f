"""Greedy maps of a solver that knows the model: by what a byte saves, and by what a move saves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import placewright._core as _core
from placewright.memory_levels.occupancy import Occupancy
from placewright.memory_levels.problem import Levels, MemoryProblem
from placewright.memory_levels.run import BestMap, MapResult
from placewright.search.run.search_run import SearchRun


@dataclass(frozen=True, kw_only=True)
class DensityGreedy:
    """Every tensor is moved alone from the slowest level to the fastest that could hold it; then, in the order of time
    saved per byte and op during which the byte is taken, each goes to the fastest level that has room for it."""

    name: str = "density"

    def solve(self, problem: MemoryProblem, run: SearchRun) -> MapResult:
        best = BestMap(problem, run, self.name)
        best.offer(density_map(problem), evaluations=problem.num_tensors * (problem.num_levels - 1) + 1)
        return best.result("complete")


def density_map(problem: MemoryProblem) -> Levels:
    """The map of `DensityGreedy`."""
    saved = _core.level_savings(problem.core, problem.all_slowest()).reshape(problem.num_tensors, problem.num_levels)
    capacity = np.array([level.capacity_bytes for level in problem.chip.levels])
    fastest = np.argmax(problem.size_bytes[:, None] <= capacity[None], axis=1)
    taken = problem.size_bytes * (problem.last - problem.first + 1)
    occupancy = Occupancy(problem)
    worth = saved[np.arange(problem.num_tensors), fastest] / taken
    for tensor in np.argsort(-worth, kind="stable").tolist():
        occupancy.place_first_fitting(tensor, range(problem.num_levels))
    return occupancy.levels


@dataclass(frozen=True, kw_only=True)
class MarginalGreedy:
    """From the slowest level, the move of one tensor that saves the most, again and again; or the most per byte and op
    during which the byte is taken."""

    name: str = "marginal"
    per_byte: bool = False

    def solve(self, problem: MemoryProblem, run: SearchRun) -> MapResult:
        best = BestMap(problem, run, self.name)
        levels, spent = _core.steepest_descent(
            problem.core, problem.all_slowest(), self.per_byte, max(1, run.evaluations_left)
        )
        best.offer(levels, evaluations=max(1, spent))
        return best.result(run.reason_to_stop() or "complete", configuration={"per_byte": self.per_byte})
