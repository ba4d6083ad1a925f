"""Schedule annealing in rounds, each as long as all before it together: twice a budget goes on where the budget ends,
so that it is never worse."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from placewright.problem import Problem
from placewright.search.default_budget import evaluations_in
from placewright.search.metaheuristics.schedule_annealing import ScheduleAnnealing
from placewright.search.run.budget import UNLIMITED, Budget
from placewright.search.run.result import Result, fitness_in
from placewright.search.run.search_run import SearchRun

#: A round starts from the best of so many solutions; fewer where evaluating them would take its budget.
NUM_STARTS = 4
_EVALUATIONS_PER_START = 500
#: The first round is at least so long: evaluations, and evaluations per op.
_FEWEST, _FEWEST_PER_OP = 200, 4
#: Of each later round, for one that starts from another baseline alone; and how many baselines take turns.
_OTHER_SHARE, _NUM_OTHERS = 0.25, 3


@dataclass(frozen=True, kw_only=True)
class AnnealingRounds:
    """The budget is halved as long as half of it is worth a round. Each round but the first gives a quarter to a search
    from one other baseline, the second best first, and the rest to one from the best so far, whatever that came from.

    method: what anneals. baselines: at least one, the best first. spent: evaluations of the budget that are gone.
    """

    method: ScheduleAnnealing
    baselines: Sequence[Result]
    spent: int = 0

    def solve(self, problem: Problem, run: SearchRun) -> Result:
        """As Method.solve."""
        ranked, found = list(self.baselines), list[Result]()
        others = _apart(self.baselines)[1 : 1 + _NUM_OTHERS]
        for index, (share, turn) in enumerate(self._shares(problem, run.budget)):
            part = run.part(evaluations=share.evaluations, seconds=share.seconds, seed=_seed(run.seed, index))
            if turn is None or not others:
                starts = ranked[: max(1, min(NUM_STARTS, part.budget.evaluations // _EVALUATIONS_PER_START))]
            else:
                starts = [others[turn % len(others)]]
            part.initial_solutions = [start.solution for start in starts]
            found.append(self.method.solve(problem, part))
            ranked = sorted([*ranked, found[-1]], key=fitness_in(problem))
            is_late = run.seconds_left is not None and run.seconds_left <= 0
            if is_late or found[-1].stopped_because in ("optimal", "interrupted"):
                break
        return replace(
            min(found, key=fitness_in(problem)),
            evaluations=run.evaluations,
            seconds=run.seconds,
            stopped_because=found[-1].stopped_because,
            seed=run.seed,
            trace=tuple(run.trace),
        )

    def _shares(self, problem: Problem, budget: Budget) -> Iterator[tuple[Budget, int | None]]:
        """What each search has, one after another, and whose turn it is where it starts from another baseline. Those of
        half the evaluations come first."""
        seconds = budget.seconds if budget.evaluations >= UNLIMITED // 2 else None
        spent, total = self.spent, budget.evaluations + self.spent
        if seconds is not None:
            spent, total = 0, evaluations_in(problem, seconds)
        ends = [total]
        while ends[-1] // 2 - spent >= max(_FEWEST, _FEWEST_PER_OP * problem.core.num_ops):
            ends.append(ends[-1] // 2)
        before = spent
        for index, end in enumerate(reversed(ends)):
            other = int(_OTHER_SHARE * (end - before)) if index > 0 else 0
            for evaluations, turn in ((other, index - 1), (end - before - other, None)):
                if evaluations == 0:
                    continue
                if seconds is not None:
                    yield replace(budget, seconds=seconds * evaluations / (total - spent)), turn
                else:
                    yield replace(budget, evaluations=evaluations), turn
            before = end


def _apart(results: Sequence[Result]) -> list[Result]:
    """Those that place the ops as none before them does."""
    by_placement: dict[bytes, Result] = {}
    for result in results:
        by_placement.setdefault(result.solution.device_of.tobytes(), result)
    return list(by_placement.values())


def _seed(seed: int, index: int) -> int:
    """Of each search its own, the seed itself for the first."""
    return seed if index == 0 else int(np.random.SeedSequence([seed, index]).generate_state(1, np.uint64)[0])
