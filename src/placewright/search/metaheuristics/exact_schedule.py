"""Exact search for the fastest schedule of few ops on several devices, with a proof where the search is completed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import placewright._core as _core
from placewright.bounds import common_divisor_ns
from placewright.problem import Problem
from placewright.search.metaheuristics.schedule_annealing import ScheduleAnnealing
from placewright.search.run.drive import drive
from placewright.search.run.result import Result, Solution, fitness_in, measure
from placewright.search.run.search_run import SearchRun

#: Share of the evaluations for annealing, which comes first, since branches without a schedule faster than the best so
#: far are cut off.
_ANNEALED_SHARE = 1 / 3


def is_provable(problem: Problem) -> bool:
    """True if branch and bound may be completed: on several devices, with few ops."""
    return problem.objective == "step-time" and _core.has_exact_schedule(problem.core)


@dataclass(frozen=True, kw_only=True)
class ExactSchedule:
    """Branch and bound over the devices and the order of ops (docs/algorithms.md has the argument).

    baselines: at least one, the best first, which keeps the memory limits. evaluations: of both parts; one of branch
    and bound is the placement of an op, which takes about as long as one of annealing.
    """

    baselines: Sequence[Result]
    evaluations: int
    name: str = "exact-schedule"

    def solve(self, problem: Problem, run: SearchRun) -> Result:
        """Solve as `Method.solve` does."""
        annealed = run.part(evaluations=int(self.evaluations * _ANNEALED_SHARE))
        annealed.initial_solutions = [self.baselines[0].solution]
        found = ScheduleAnnealing().solve(problem, annealed)
        if found.stopped_because in ("optimal", "interrupted"):
            return found
        best = min(self.baselines[0], found, key=fitness_in(problem))
        search = _core.ExactSchedule(
            problem=problem.core,
            device_of=best.solution.device_of,
            order=best.solution.order,
            divisor_ns=common_divisor_ns(problem),
        )
        rest = run.part(evaluations=self.evaluations - annealed.evaluations)
        reason = drive(rest, search, self.name, is_exhausted=partial(getattr, search, "is_exhausted"))
        device_of, order = search.best()
        solution = Solution(device_of=device_of, order=order)
        return run.result(
            problem,
            self.name,
            solution,
            stopped_because="optimal" if search.is_proven else reason,
            proven_bound=measure(problem, solution).step_time_ns if search.is_proven else None,
        )
