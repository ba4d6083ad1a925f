"""The best solution so far, where it came from and what is proved of it."""

from __future__ import annotations

import time

from placewright.bounds import lower_bound
from placewright.problem import Problem
from placewright.problem.objective import status_of
from placewright.search.budget import OnProgress, Progress
from placewright.search.result import Result, Solution, TracePoint, measure


class Best:
    """Begins as the warm start; every better solution offered takes its place.

    proven_bound: no plan that keeps the limits has a lower objective; None while nothing is proved.
    """

    def __init__(
        self, problem: Problem, warm: Result, began: float, method: str, on_progress: OnProgress | None
    ) -> None:
        self._problem, self._began, self._method, self._on_progress = problem, began, method, on_progress
        self.warm = warm
        self._evaluations = warm.evaluations
        self.solution, self.metrics, self.found_by = warm.solution, warm.metrics, warm.found_by
        self.proven_bound: int | None = self.objective if warm.stopped_because == "optimal" else None
        self.trace: list[TracePoint] = []
        self._note()

    @property
    def objective(self) -> int:
        return self.metrics.objective_value(self._problem.objective)

    @property
    def is_optimal(self) -> bool:
        """Whether that is proved: the limits kept, and nothing below the objective."""
        return status_of(self.objective, self.metrics.bytes_over_limit, self.proven_bound) == "optimal"

    def seconds(self) -> float:
        return time.perf_counter() - self._began

    def offer(self, solution: Solution, found_by: str, evaluations: int = 0) -> None:
        """Measures a solution and keeps it where it is better. evaluations: since the warm start."""
        self._evaluations = self.warm.evaluations + evaluations
        metrics = measure(self._problem, solution)
        if metrics.fitness(self._problem.objective) < self.metrics.fitness(self._problem.objective):
            self.solution, self.metrics, self.found_by = solution, metrics, found_by
            self._note()

    def learn(self, bound: int | None) -> None:
        """Takes a bound that a search proved, no lower than the simple one it began with; where it proved none, the
        simple one if that is met. Nothing is learnt while the best breaks a limit, since plans that do may have a lower
        objective."""
        simple = lower_bound(self._problem).value
        if self.metrics.bytes_over_limit == 0 and (bound is not None or self.objective == simple):
            self.proven_bound = max(simple, bound or 0)

    def _note(self) -> None:
        now = (self.objective, self.metrics.bytes_over_limit)
        if not self.trace or (self.trace[-1].best, self.trace[-1].bytes_over_limit) != now:
            self.trace.append(
                TracePoint(evaluations=self._evaluations, seconds=self.seconds(), best=now[0], bytes_over_limit=now[1])
            )
        self.report()

    def report(self) -> None:
        """Tells the caller where the search stands."""
        if self._on_progress is not None:
            self._on_progress(
                Progress(
                    method=self._method,
                    evaluations=self._evaluations,
                    seconds=self.seconds(),
                    best=self.objective,
                    bytes_over_limit=self.metrics.bytes_over_limit,
                )
            )
