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
    """Every tensor is moved alone from the slowest level to each faster one; then, in the order of time saved per byte
    and op during which the byte is taken, each goes to the fastest level that has room for it."""

    name: str = "density"

    def solve(self, problem: MemoryProblem, run: SearchRun) -> MapResult:
        best = BestMap(problem, run, self.name)
        best.offer(density_map(problem), evaluations=problem.num_tensors + 1)
        return best.result("complete")


def density_map(problem: MemoryProblem) -> Levels:
    """The map of `DensityGreedy`."""
    slowest = problem.all_slowest()
    moved = np.repeat(slowest[None], problem.num_tensors, axis=0)
    np.fill_diagonal(moved, 0)
    before = problem.evaluate_one(slowest)[0]
    # What is too large for the fastest level is rectified to the fastest that it fits into.
    saved = before - problem.evaluate(moved).latency_ps
    taken = problem.size_bytes * (problem.last - problem.first + 1)
    occupancy = Occupancy(problem)
    for tensor in np.argsort(-saved / taken, kind="stable").tolist():
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
