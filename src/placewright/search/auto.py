"""The default method: every baseline first, then the search that fits the problem; the best of everything wins."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

from placewright.bounds import lower_bound, nothing_fits
from placewright.problem import Problem
from placewright.proposal import Proposal
from placewright.search.annealing_rounds import NUM_SEEDS, AnnealingRounds
from placewright.search.brkga import Brkga
from placewright.search.budget import UNLIMITED, Budget, Interrupted, OnProgress
from placewright.search.default_budget import has_free_barriers
from placewright.search.peak_search import PeakSearch
from placewright.search.portfolio import run_baselines
from placewright.search.result import Result
from placewright.search.schedule_annealing import ScheduleAnnealing
from placewright.search.side_by_side import best_side_by_side
from placewright.search.superstep_annealing import SuperstepAnnealing

#: Ops times searches at the same time, each of which holds the whole schedule: 4 GB for 1,000,000.
_OPS_AT_ONCE = 1_000_000
#: Of what is left of the budget: for a plan within limits that no baseline keeps, and for guided search.
_FEASIBILITY_SHARE = 0.3
_GUIDED_SHARE = 0.5


@dataclass(frozen=True, kw_only=True)
class Auto:
    """No worse than any baseline, by construction: it returns the best of all candidates they made.

    What is left of the budget after the baselines goes to one search, by rules that were measured
    (docs/algorithms.md): `peak-search` where memory is the objective, `superstep-annealing` where there are transfers
    that block and cost nothing, `schedule-annealing` in rounds otherwise. Where no baseline keeps the memory limits,
    `peak-search` first looks for a plan that does. With a proposal a guided `brkga` takes half. A search ends when it
    meets the lower bound.

    threads: with a time limit alone the search runs in each from a seed of its own, and the best counts. With a budget
    of evaluations only the guided search uses them, and the result does not depend on how many there are.
    """

    name: str = "auto"
    threads: int = 1

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
        """Runs the baselines, whatever the evaluations: they are what the result must not be worse than; portfolio.py
        says what a time limit, an interrupt and the size of the problem leave out. A search follows unless a bound
        proves that nothing is left to gain."""
        began = time.perf_counter()
        results = run_baselines(problem, seed, budget.seconds, on_progress=on_progress, interrupted=interrupted)
        budget = replace(budget, bound=lower_bound(problem).value)
        ranked, reason = _by_fitness(problem, results), "complete"
        spent = sum(result.evaluations for result in results)
        for search, share in self._searches(problem, ranked[0], proposal):
            elapsed = time.perf_counter() - began
            stop = _reason_to_stop(problem, ranked[0], budget, spent, elapsed, interrupted)
            if stop is not None:
                reason = stop
                break
            own = _part_of_rest(budget, share, spent, elapsed)
            solve = partial(search.solve, problem, own, proposal=proposal)
            if isinstance(search, Brkga):
                solve = partial(solve, seeds=[result.solution for result in ranked[:NUM_SEEDS]])
            elif isinstance(search, ScheduleAnnealing):
                rounds = AnnealingRounds(method=search, baselines=ranked, spent=spent)
                solve = partial(rounds.solve, problem, replace(own, evaluations=budget.evaluations))
            threads = 1 if isinstance(search, Brkga) else self._searches_at_once(problem, budget)
            found = best_side_by_side(solve, problem, seed, threads, on_progress=on_progress, interrupted=interrupted)
            ranked = _by_fitness(problem, [*ranked, found])
            spent += found.evaluations
            reason = found.stopped_because
        return replace(
            ranked[0],
            method=self.name,
            evaluations=spent,
            seconds=time.perf_counter() - began,
            stopped_because=reason,
            seed=seed,
            baselines=tuple(results),
            proven_bound=max((r.proven_bound for r in ranked if r.proven_bound is not None), default=None),
        )

    def _searches_at_once(self, problem: Problem, budget: Budget) -> int:
        if budget.evaluations < UNLIMITED:
            return 1
        return max(1, min(self.threads, _OPS_AT_ONCE // problem.core.num_ops))

    def _searches(
        self, problem: Problem, best: Result, proposal: Proposal | None
    ) -> Iterator[tuple[Brkga | PeakSearch | ScheduleAnnealing | SuperstepAnnealing, float]]:
        """What follows the baselines, and the share each has of what is left of the budget then."""
        if proposal is not None:
            yield Brkga(threads=self.threads), _GUIDED_SHARE
        if problem.objective == "peak-memory":
            yield PeakSearch(), 1.0
            return
        if best.metrics.bytes_over_limit > 0:
            yield PeakSearch(), _FEASIBILITY_SHARE
        yield SuperstepAnnealing() if has_free_barriers(problem) else ScheduleAnnealing(), 1.0


def _by_fitness(problem: Problem, results: list[Result]) -> list[Result]:
    return sorted(results, key=lambda result: result.metrics.fitness(problem.objective))


def _part_of_rest(budget: Budget, share: float, spent: int, elapsed: float) -> Budget:
    """A share of what is left, at least something."""
    left = budget.evaluations - spent
    return replace(
        budget,
        evaluations=max(1, min(left, int(left * share))),  # a float may round up beyond what is left
        seconds=None if budget.seconds is None else max(1e-3, (budget.seconds - elapsed) * share),
    )


def _reason_to_stop(
    problem: Problem, best: Result, budget: Budget, spent: int, elapsed: float, interrupted: Interrupted | None
) -> str | None:
    """Why no search need or may follow: "optimal", "infeasible" (both proven), "interrupted", or a budget's reason."""
    metrics = best.metrics
    if interrupted is not None and interrupted():
        return "interrupted"
    if budget.is_optimal(metrics.objective_value(problem.objective), metrics.bytes_over_limit):
        return "optimal"
    if nothing_fits(problem):
        return "infeasible"
    return budget.reason_to_stop(spent, elapsed)
