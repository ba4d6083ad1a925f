"""The default method: every baseline first, then the search that fits the problem; it returns the best of all
results."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

from placewright.bounds import lower_bound, nothing_fits
from placewright.problem import Problem
from placewright.problem.objective import Objective, StopReason
from placewright.search.default_budget import first_evaluations, has_free_barriers, most_evaluations
from placewright.search.metaheuristics.default_first import DefaultFirst
from placewright.search.metaheuristics.exact_schedule import ExactSchedule, is_provable
from placewright.search.metaheuristics.peak_search import PeakSearch
from placewright.search.metaheuristics.superstep_annealing import SuperstepAnnealing
from placewright.search.portfolio import run_baselines
from placewright.search.run.budget import UNLIMITED
from placewright.search.run.method import Search
from placewright.search.run.multistart import multistart
from placewright.search.run.result import Result, fitness_in
from placewright.search.run.search_run import SearchRun

#: The most scheduled ops in all concurrent searches, each of which holds the whole schedule: 4 GB for 1,000,000.
_OPS_AT_ONCE = 1_000_000
#: Share of the remaining budget for finding a plan within limits that no baseline keeps.
_FEASIBILITY_SHARE = 0.3
#: Share of the remaining evaluations, and of the remaining time, for a proof where ops are few.
_PROOF_SHARE, _PROOF_SHARE_OF_TIME = 0.075, 0.2
#: Time of the bound per op: for the step time on a graph of some 1,000 ops, the most; on others less.
_BOUND_NS_PER_OP: Mapping[Objective, int] = {"step-time": 40_000, "peak-memory": 8_000}
#: The bound's share of a time limit: in the run's only thread; and in another thread during the baselines, or where it
#: is likely to end the run.
_BOUND_SHARE, _BOUND_SHARE_AT_MOST = 0.1, 0.5


@dataclass(frozen=True, kw_only=True)
class Auto:
    """A method that is no worse than any baseline, by construction: it returns the best of all candidates made.

    The rest of the budget after the baselines goes to one search, by rules that were measured
    (docs/algorithms.md): `peak-search` where memory is the objective, `superstep-annealing` where there are transfers
    that block and cost nothing, `schedule-annealing` otherwise. Where no baseline keeps the memory limits,
    `peak-search` first looks for a plan that does. A search ends when it meets the lower bound.

    With only a time limit, the search runs in each thread of the run from a seed of its own, and the best counts.
    """

    name: str = "auto"

    def solve(self, problem: Problem, run: SearchRun) -> Result:
        """Run the baselines, whatever the number of evaluations: the result must not be worse than theirs. portfolio.py
        says what a time limit, an interrupt and the size of the problem leave out. A search follows unless a bound
        proves that nothing is left to gain; where a time limit is too short for the bound, the search runs without
        one."""
        if run.threads > 1 and _has_time_for_bound(problem, run):
            _ = problem.core  # needed by both threads
            # The bound takes as long as the baselines, and most of it holds no interpreter lock.
            with ThreadPoolExecutor(1) as beside:
                bound = beside.submit(lower_bound, problem)
                baselines = run_baselines(problem, run)
                run.bound = bound.result().value
        else:
            baselines = run_baselines(problem, run)
            if _has_time_for_bound(problem, run, baselines):
                run.bound = lower_bound(problem).value
        ranked = sorted(baselines, key=fitness_in(problem))
        reason: StopReason | None = None
        for make, share in _searches(problem, ranked, run):
            if (reason := _reason_to_stop(problem, ranked[0], run)) is not None:
                break
            search = make()
            at_once = 1 if isinstance(search, ExactSchedule) else _searches_at_once(problem, run)
            found = multistart(search, problem, run.part(share), at_once)
            ranked.append(found)
            ranked.sort(key=fitness_in(problem))
            if found.proven_bound is not None:
                run.bound = max(run.bound or 0, found.proven_bound)
            reason = found.stopped_because
        assert reason is not None
        return replace(
            ranked[0],
            method=self.name,
            evaluations=run.evaluations,
            seconds=run.seconds,
            stopped_because=reason,
            seed=run.seed,
            trace=tuple(run.trace),
            baselines=tuple(baselines),
            proven_bound=max((r.proven_bound for r in ranked if r.proven_bound is not None), default=None),
        )


def _has_time_for_bound(problem: Problem, run: SearchRun, baselines: Sequence[Result] = ()) -> bool:
    """True if a search would lose little time to the bound, which improves no plan: it only ends a search that cannot
    gain. Where two baselines end at the same value, that may well be the bound."""
    seconds = math.inf if run.budget.seconds is None else run.budget.seconds
    reached = sorted((r.metrics.bytes_over_limit, r.metrics.objective_value(problem.objective)) for r in baselines)
    share = _BOUND_SHARE_AT_MOST if run.threads > 1 or reached[:1] == reached[1:2] != [] else _BOUND_SHARE
    return problem.core.num_ops * _BOUND_NS_PER_OP[problem.objective] <= seconds * share * 1e9


def _searches_at_once(problem: Problem, run: SearchRun) -> int:
    if run.budget.evaluations < UNLIMITED:
        return 1
    return max(1, min(run.threads, _OPS_AT_ONCE // problem.core.num_ops))


def _searches(
    problem: Problem, ranked: Sequence[Result], run: SearchRun
) -> Iterator[tuple[Callable[[], Search], float]]:
    """Yield functions that make the searches after the baselines, each with its share of the budget that is left by
    then. ranked: the results so far whenever the next is asked for, the best first."""
    if problem.objective == "peak-memory":
        yield PeakSearch, 1.0
        return
    if ranked[0].metrics.bytes_over_limit > 0:
        yield PeakSearch, _FEASIBILITY_SHARE
    if has_free_barriers(problem):
        yield SuperstepAnnealing, 1.0
    else:
        # Results on the way to a proof count, but the search has the starts that it would have without the proof.
        starts = tuple(ranked)
        if is_provable(problem) and ranked[0].metrics.bytes_over_limit == 0:
            proof = max(2, int(_PROOF_SHARE * min(run.evaluations_left, _first_evaluations(problem, run))))
            yield partial(ExactSchedule, baselines=starts, evaluations=proof), _PROOF_SHARE_OF_TIME
        yield partial(_annealing, problem, run, starts), 1.0


def _annealing(problem: Problem, run: SearchRun, starts: Sequence[Result]) -> DefaultFirst:
    """The search by moves. Counting what its moves cost takes half a second for 50,000 ops."""
    first, more = _first_evaluations(problem, run), most_evaluations(problem)
    return DefaultFirst(baselines=starts, evaluations=first, more=more)


def _first_evaluations(problem: Problem, run: SearchRun) -> int:
    """Return the evaluations that are left for the first search."""
    return max(1, first_evaluations(problem) - run.evaluations)


def _reason_to_stop(problem: Problem, best: Result, run: SearchRun) -> StopReason | None:
    """Return the reason why no search need or may follow: the user, a proof, or the budget. None if one may."""
    metrics = best.metrics
    if run.is_interrupted():
        return "interrupted"
    if run.is_optimal(metrics.objective_value(problem.objective), metrics.bytes_over_limit):
        return "optimal"
    if metrics.bytes_over_limit > 0 and nothing_fits(problem):
        return "infeasible"
    return run.reason_to_stop()
