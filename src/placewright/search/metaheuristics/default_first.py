"""Schedule annealing in up to three searches: as many evaluations as the default begins with, as many again where it
still gains, then what is left of a budget or a time limit, so that more than the default is never worse than it."""

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
#: Of the time of a search, what is worth another one; and of the bound, how far the best must be from it.
_WORTH_MORE, _WORTH_GAP = 0.1, 0.02


@dataclass(frozen=True, kw_only=True)
class DefaultFirst:
    """Every search but the first starts from the best so far, whatever that came from, and has a seed of its own.

    The second is made where the first gained in its last tenth and the bound leaves a gap. Where it is not, the last
    has all that is left, unless that is no more than the second would have had: then nothing follows.

    baselines: at least one, the best first. evaluations: of the first search. more: of the second.
    """

    baselines: Sequence[Result]
    evaluations: int
    more: int

    def solve(self, problem: Problem, run: SearchRun) -> Result:
        """As Method.solve."""
        ranked, found = list(self.baselines), list[Result]()
        others = np.random.SeedSequence([run.seed, 1]).generate_state(2, np.uint64)
        evaluations, reason = self.evaluations, None
        for seed in (run.seed, *map(int, others)):
            part = run.part(evaluations=evaluations, seed=seed)
            starts = ranked[: max(1, min(NUM_STARTS, part.budget.evaluations // _EVALUATIONS_PER_START))]
            part.initial_solutions = [start.solution for start in starts]
            found.append(ScheduleAnnealing().solve(problem, part))
            ranked = sorted([*ranked, found[-1]], key=fitness_in(problem))
            still_gains = part.gained_lately() and _leaves_gap(problem, run, ranked[0])
            evaluations = self.more if still_gains and len(found) == 1 else UNLIMITED
            if (reason := self._reason_to_stop(run, found, still_gains)) is not None:
                break
        return replace(
            min(found, key=fitness_in(problem)),
            evaluations=run.evaluations,
            seconds=run.seconds,
            stopped_because=reason or found[-1].stopped_because,
            seed=run.seed,
            trace=tuple(run.trace),
        )

    def _reason_to_stop(self, run: SearchRun, found: Sequence[Result], still_gains: bool) -> StopReason | None:
        """Why no other search follows."""
        last = found[-1]
        if last.stopped_because != "evaluations" or run.evaluations_left == 0:
            return last.stopped_because
        if run.seconds_left is not None:
            return "time" if run.seconds_left < _WORTH_MORE * last.seconds else None
        return "evaluations" if len(found) == 1 and not still_gains and run.evaluations_left <= self.more else None


def _leaves_gap(problem: Problem, run: SearchRun, best: Result) -> bool:
    gap = best.metrics.objective_value(problem.objective) - (run.bound or 0)
    return best.metrics.bytes_over_limit > 0 or gap > _WORTH_GAP * (run.bound or 0)
