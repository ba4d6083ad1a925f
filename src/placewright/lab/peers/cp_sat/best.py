"""The best solution so far, and the bound that is proved for it."""

from __future__ import annotations

from placewright.bounds import lower_bound
from placewright.problem import Problem
from placewright.problem.objective import Metrics, status_of
from placewright.search.run.result import Result
from placewright.search.run.search_run import Incumbent, SearchRun

#: CP-SAT gets at least this many seconds of a time limit.
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
        """True if the best is proved optimal: it keeps the limits, and no plan has a lower objective."""
        return status_of(self.objective, self.metrics.bytes_over_limit, self.proven_bound) == "optimal"

    def learn(self, bound: int | None) -> None:
        """Set the bound to one that a search proved, but at least to the simple lower bound; where the search proved
        none, use the simple bound if the best reaches it. Does nothing while the best breaks a limit, since plans that
        do may have a lower objective."""
        simple = lower_bound(self._problem).value
        if self.metrics.bytes_over_limit == 0 and (bound is not None or self.objective == simple):
            self.proven_bound = max(simple, bound or 0)
