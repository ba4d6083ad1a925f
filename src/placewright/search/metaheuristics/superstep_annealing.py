"""Superstep annealing for blocking transfers that cost nothing: ops move among the segments between barriers."""

from __future__ import annotations

from dataclasses import dataclass

import placewright._core as _core
from placewright.problem import Problem
from placewright.search.constructive.list_scheduling import SegmentFill
from placewright.search.run.drive import drive
from placewright.search.run.result import Result, Solution
from placewright.search.run.search_run import SearchRun


@dataclass(frozen=True, kw_only=True)
class SuperstepAnnealing:
    """Segment-fill, improved by moves of ops between segments and devices (docs/algorithms.md). Each move counts as one
    evaluation. Where transfers cost something, do not block, or memory is the objective, the result is segment-fill's.
    """

    name: str = "superstep-annealing"

    def solve(self, problem: Problem, run: SearchRun) -> Result:
        """Solve as `Method.solve` does."""
        if not _core.has_free_barriers(problem.core):
            return SegmentFill(name=self.name).solve(problem, run)
        search = _core.SuperstepAnnealing(problem=problem.core, seed=run.seed, evaluations=run.budget.evaluations)
        reason = drive(run, search, self.name)
        device_of, order = search.best()
        solution = Solution(device_of=device_of, order=order)
        return run.result(problem, self.name, solution, stopped_because=reason)
