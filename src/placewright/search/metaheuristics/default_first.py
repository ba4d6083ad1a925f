"""Schedule annealing in up to three searches: first with the default's first evaluations; then, if it still gains, with
the evaluations for the rest of the default's second; then with the rest of a budget or a time limit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from placewright.problem import Problem
from placewright.problem.objective import StopReason
from placewright.search.default_budget import second_evaluations
from placewright.search.metaheuristics.schedule_annealing import ScheduleAnnealing
from placewright.search.run.budget import UNLIMITED
from placewright.search.run.result import Result, fitness_in
from placewright.search.run.search_run import SearchRun

#: A search starts from so many of the best solutions; from fewer where their evaluation would take its budget.
NUM_STARTS = 4
_EVALUATIONS_PER_START = 500
#: The least share of a search that is worth another one; and the least gap, as a share of the bound.
_WORTH_MORE, _WORTH_GAP = 0.1, 0.02
#: If less than so many times its time is left, the second search gets it all: one is better than two half as long.
_WORTH_THIRD = 4.0


@dataclass(frozen=True, kw_only=True)
class DefaultFirst:
    """Schedule annealing in up to three searches. With much more than the default budget, the result is never worse
    than with the default: every search but the first starts from the best so far, whatever method found it, and has a
    seed of its own.

    The second search is made if the first gained in its last tenth, the bound leaves a gap and the work of the first
    leaves time. A budget of evaluations that is no more than the default's ends after these. A time limit that leaves
    little more than the second would take leaves it to one search.

    baselines: at least one, the best first. evaluations: of the first search. more: the most of the second.
    """

    baselines: Sequence[Result]
    evaluations: int
    more: int

    def solve(self, problem: Problem, run: SearchRun) -> Result:
        """Solve as `Method.solve` does."""
        ranked, found = list(self.baselines), list[Result]()
        has_rest = run.seconds_left is not None or run.evaluations_left > self.evaluations + self.more
        others = map(int, np.random.SeedSequence([run.seed, 1]).generate_state(2, np.uint64))
        reason: StopReason | None = None
        evaluations = self.evaluations
        while reason is None and evaluations > 0:
            part = run.part(evaluations=evaluations, seed=next(others) if found else run.seed)
            starts = ranked[: max(1, min(NUM_STARTS, part.budget.evaluations // _EVALUATIONS_PER_START))]
            part.initial_solutions = [start.solution for start in starts]
            found.append(ScheduleAnnealing().solve(problem, part))
            ranked = sorted([*ranked, found[-1]], key=fitness_in(problem))
            reason = _reason_to_stop(run, found[-1])
            second = _second(problem, run, part, ranked[0]) if len(found) == 1 else 0
            evaluations = second or (UNLIMITED if has_rest else 0)
        return replace(
            min(found, key=fitness_in(problem)),
            evaluations=run.evaluations,
            seconds=run.seconds,
            stopped_because=reason or "evaluations",
            seed=run.seed,
            trace=tuple(run.trace),
        )


def _second(problem: Problem, run: SearchRun, first: SearchRun, best: Result) -> int:
    """Return the evaluations of a second search, 0 if it is not worth it."""
    gap = best.metrics.objective_value(problem.objective) - (run.bound or 0)
    has_gap = best.metrics.bytes_over_limit > 0 or gap > _WORTH_GAP * (run.bound or 0)
    if not (first.gained_lately() and has_gap):
        return 0
    evaluations = second_evaluations(problem, first.evaluations, first.work)
    seconds = first.seconds * evaluations / first.evaluations
    has_time = run.seconds_left is None or run.seconds_left > _WORTH_THIRD * seconds
    return evaluations if has_time and evaluations > _WORTH_MORE * first.evaluations else 0


def _reason_to_stop(run: SearchRun, last: Result) -> StopReason | None:
    if last.stopped_because != "evaluations" or run.evaluations_left == 0:
        return last.stopped_because
    if run.seconds_left is not None and run.seconds_left < _WORTH_MORE * last.seconds:
        return "time"
    return None
