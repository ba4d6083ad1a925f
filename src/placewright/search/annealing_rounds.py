"""Schedule annealing in rounds, each as long as all before it together: twice a budget goes on where the budget ends,
so that it is never worse."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from placewright.problem import Problem
from placewright.proposal import Proposal
from placewright.search.budget import UNLIMITED, Budget, Interrupted, OnProgress, Progress
from placewright.search.default_budget import evaluations_in
from placewright.search.result import Result, TracePoint
from placewright.search.schedule_annealing import ScheduleAnnealing

#: A round starts from the best of so many solutions; fewer where evaluating them would take its budget.
NUM_SEEDS = 4
_EVALUATIONS_PER_SEED = 500
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
        """As Method.solve; the seconds of the budget count from here, its evaluations include those spent."""
        began = time.perf_counter()
        ranked, found = list(self.baselines), list[Result]()
        others = _apart(self.baselines)[1 : 1 + _NUM_OTHERS]
        for index, (part, turn) in enumerate(_parts(problem, budget, self.spent)):
            if turn is None or not others:
                starts = ranked[: max(1, min(NUM_SEEDS, part.evaluations // _EVALUATIONS_PER_SEED))]
            else:
                starts = [others[turn % len(others)]]
            result = self.method.solve(
                problem,
                _within(part, budget.seconds, time.perf_counter() - began),
                _seed(seed, index),
                seeds=[start.solution for start in starts],
                on_progress=_behind(found, on_progress),
                interrupted=interrupted,
            )
            found.append(result)
            ranked = sorted([*ranked, result], key=lambda result: result.metrics.fitness(problem.objective))
            is_late = budget.seconds is not None and time.perf_counter() - began >= budget.seconds
            if is_late or result.stopped_because in ("optimal", "interrupted"):
                break
        best = min(found, key=lambda result: result.metrics.fitness(problem.objective))
        return replace(
            best,
            evaluations=sum(result.evaluations for result in found),
            seconds=time.perf_counter() - began,
            stopped_because=found[-1].stopped_because,
            seed=seed,
            trace=_trace(found),
        )


def _parts(problem: Problem, budget: Budget, spent: int) -> Iterator[tuple[Budget, int | None]]:
    """What each search has, one after another, and whose turn it is where it starts from another baseline. Those of
    half the evaluations come first."""
    seconds = budget.seconds if budget.evaluations >= UNLIMITED // 2 else None
    total = budget.evaluations
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


def _within(part: Budget, seconds: float | None, elapsed: float) -> Budget:
    """No longer than what is left of the seconds of all."""
    if seconds is None or part.seconds is None:
        return part
    return replace(part, seconds=max(1e-3, min(part.seconds, seconds - elapsed)))


def _apart(results: Sequence[Result]) -> list[Result]:
    """Those that place the ops as none before them does."""
    by_placement: dict[bytes, Result] = {}
    for result in results:
        by_placement.setdefault(result.solution.device_of.tobytes(), result)
    return list(by_placement.values())


def _seed(seed: int, index: int) -> int:
    """Of each search its own, the seed itself for the first."""
    return seed if index == 0 else int(np.random.SeedSequence([seed, index]).generate_state(1, np.uint64)[0])


def _behind(found: Sequence[Result], on_progress: OnProgress | None) -> OnProgress | None:
    """Reports of a search behind those that have ended, as if they were one."""
    if on_progress is None or not found:
        return on_progress
    evaluations, seconds = sum(r.evaluations for r in found), sum(r.seconds for r in found)
    last = min((r.trace[-1].bytes_over_limit, r.trace[-1].best) for r in found)

    def report(progress: Progress) -> None:
        bytes_over_limit, best = min(last, (progress.bytes_over_limit, progress.best))
        on_progress(
            replace(
                progress,
                evaluations=evaluations + progress.evaluations,
                seconds=seconds + progress.seconds,
                best=best,
                bytes_over_limit=bytes_over_limit,
            )
        )

    return report


def _trace(found: Sequence[Result]) -> tuple[TracePoint, ...]:
    """One of all: a point wherever the best changes."""
    trace: list[TracePoint] = []
    evaluations, seconds = 0, 0.0
    for result in found:
        for point in result.trace:
            if not trace or (point.bytes_over_limit, point.best) < (trace[-1].bytes_over_limit, trace[-1].best):
                at = evaluations + point.evaluations
                trace.append(replace(point, evaluations=at, seconds=seconds + point.seconds))
        evaluations, seconds = evaluations + result.evaluations, seconds + result.seconds
    return tuple(trace)
