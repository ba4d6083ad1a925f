"""Superstep annealing: for blocking transfers that cost nothing, ops move among the segments between barriers."""

from __future__ import annotations

import time
from dataclasses import dataclass

import placewright._core as _core
from placewright.problem import Problem
from placewright.proposal import Proposal
from placewright.search.budget import Budget, Interrupted, OnProgress
from placewright.search.pausable import result_of, run
from placewright.search.result import Result, Solution
from placewright.search.segment_fill import SegmentFill


@dataclass(frozen=True, kw_only=True)
class SuperstepAnnealing:
    """Segment-fill, improved by moves of ops between segments and devices (docs/algorithms.md). Each move counts as one
    evaluation. Where transfers cost something, do not block, or memory is the objective, the result is segment-fill's.
    """

    name: str = "superstep-annealing"

    def solve(
        self,
        problem: Problem,
        budget: Budget,
        seed: int,
        proposal: Proposal | None = None,
        *,
        on_progress: OnProgress | None = None,
        interrupted: Interrupted | None = None,
    ) -> Result:
        """As Method.solve; the proposal does not matter."""
        if not _core.has_free_barriers(problem.core):
            start = SegmentFill(name=self.name)
            return start.solve(problem, budget, seed, on_progress=on_progress, interrupted=interrupted)
        began = time.perf_counter()
        search = _core.SuperstepAnnealing(problem=problem.core, seed=seed, evaluations=budget.evaluations)
        ran = run(search, self.name, budget, began, on_progress, interrupted)
        solution = Solution(device_of=search.best_device_of(), order=search.best_order())
        return result_of(self.name, {}, problem, search, ran, solution, seed=seed, began=began)
