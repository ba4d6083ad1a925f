"""Schedule annealing under a time limit: as many evaluations as the default has, then one search for the time that is
left, so that a limit with room for the default is never worse than it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from placewright.problem import Problem
from placewright.problem.objective import StopReason
from placewright.search.metaheuristics.schedule_annealing import ScheduleAnnealing
from placewright.search.run.budget import UNLIMITED
from placewright.search.run.result import Result, fitness_in
from placewright.search.run.search_run import SearchRun

#: A search starts from the best of so many solutions; fewer where evaluating them would take its budget.
NUM_STARTS = 4
_EVALUATIONS_PER_START = 500
#: Of the time of the first search, what is worth a second one.
_WORTH_MORE = 0.1


@dataclass(frozen=True, kw_only=True)
class DefaultFirst:
    """The second search starts from the best so far, whatever that came from, and has a seed of its own.

    baselines: at least one, the best first. evaluations: of the first search.
    """

    baselines: Sequence[Result]
    evaluations: int

    def solve(self, problem: Problem, run: SearchRun) -> Result:
        """As Method.solve."""
        ranked, found = list(self.baselines), list[Result]()
        second = int(np.random.SeedSequence([run.seed, 1]).generate_state(1, np.uint64)[0])
        reason: StopReason = "complete"
        for evaluations, seed in ((self.evaluations, run.seed), (UNLIMITED, second)):
            part = run.part(evaluations=evaluations, seed=seed)
            starts = ranked[: max(1, min(NUM_STARTS, part.budget.evaluations // _EVALUATIONS_PER_START))]
            part.initial_solutions = [start.solution for start in starts]
            found.append(ScheduleAnnealing().solve(problem, part))
            ranked = sorted([*ranked, found[-1]], key=fitness_in(problem))
            reason = found[-1].stopped_because
            if reason != "evaluations" or run.evaluations_left == 0:
                break
            if run.seconds_left is not None and run.seconds_left < _WORTH_MORE * found[-1].seconds:
                reason = "time"
                break
        return replace(
            min(found, key=fitness_in(problem)),
            evaluations=run.evaluations,
            seconds=run.seconds,
            stopped_because=reason,
            seed=run.seed,
            trace=tuple(run.trace),
        )
