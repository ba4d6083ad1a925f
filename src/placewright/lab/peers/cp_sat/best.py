"""The best solution so far, and what is proved of it."""

from __future__ import annotations

from placewright.bounds import lower_bound
from placewright.problem import Problem
from placewright.problem.objective import Metrics, status_of
from placewright.search.run.result import Result
from placewright.search.run.search_run import Incumbent, SearchRun

#: CP-SAT is given at least so many seconds of a time limit.
LEAST_SECONDS = 0.01


class Best:
    """The incumbent of a run that began with a warm start.

    proven_bound: no plan that keeps the limits has a lower objective; None while nothing is proved.
    """

    def __init__(self, problem: Problem, run: SearchRun, warm: Result, method: str) -> None:
        self._problem, self._run = problem, run
        run.offer(problem, warm.solution, method, found_by=warm.found_by, evaluations=0)
        self.proven_bound: int | None = self.objective if warm.stopped_because == "optimal" else None

    @property
    def incumbent(self) -> Incumbent:
        assert self._run.incumbent is not None
        return self._run.incumbent

    @property
    def metrics(self) -> Metrics:
        return self.incumbent.metrics

    @property
    def objective(self) -> int:
        return self.metrics.objective_value(self._problem.objective)

    @property
    def is_optimal(self) -> bool:
        """Whether that is proved: the limits kept, and nothing below the objective."""
        return status_of(self.objective, self.metrics.bytes_over_limit, self.proven_bound) == "optimal"

    def learn(self, bound: int | None) -> None:
        """Takes a bound that a search proved, no lower than the simple one it began with; where it proved none, the
        simple one if that is met. Nothing is learnt while the best breaks a limit, since plans that do may have a lower
        objective."""
        simple = lower_bound(self._problem).value
        if self.metrics.bytes_over_limit == 0 and (bound is not None or self.objective == simple):
            self.proven_bound = max(simple, bound or 0)
