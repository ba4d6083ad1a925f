"""One run of a search: its budget, its best solution so far, and its reports."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from placewright.problem import Problem
from placewright.problem.objective import Metrics, StopReason, status_of
from placewright.proposal import Proposal
from placewright.search.run.budget import Budget, Interrupted, OnProgress, Progress
from placewright.search.run.result import Result, Solution, TracePoint, measure
from placewright.support.errors import InputError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

MAX_THREADS = 1024
#: The least seconds of a part of a run, even if its time is over.
_LEAST_SECONDS = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class Incumbent:
    """The best solution offered so far, its costs, and the part of the method that found it."""

    solution: Solution
    metrics: Metrics
    found_by: str


class SearchRun:
    """Budget, clock, seed, best so far and reports of one run, which a method gets with the problem and consults.

    A run can be given to one method only: its clock starts when it is made. A method that runs others gives each a part
    of it; what a part spends and finds counts for the whole.

    Parameters
    ----------
    budget
        The budget of the run.
    seed
        Seed of all random choices.
    threads
        Number of threads that the method may use. With a budget of evaluations the result does not depend on it.
    initial_solutions
        Solutions to begin with, for methods that can begin anywhere.
    guide
        The distributions from which keys are drawn, for methods that draw keys.
    bound
        A lower bound on the objective of solutions within limits, in ns or bytes; a search that meets it may end.
    on_progress
        Called now and then with the best so far, by one thread at a time.
    interrupted
        Called now and then; True ends the search with its best so far.

    Attributes
    ----------
    evaluations
        Evaluations spent so far, those of parts included.
    work
        Amount of changes made by evaluations, in units of the core; 0 if the method counts none. That of parts is not
        included.
    trace
        A point for every change of the best so far.
    incumbent
        The best solution that was offered; None if there was none.
    """

    def __init__(
        self,
        budget: Budget | None = None,
        *,
        seed: int = 0,
        threads: int = 1,
        initial_solutions: Sequence[Solution] = (),
        guide: Proposal | None = None,
        bound: int | None = None,
        on_progress: OnProgress | None = None,
        interrupted: Interrupted | None = None,
    ) -> None:
        if not 1 <= threads <= MAX_THREADS:
            raise InputError(f"threads is {threads}; it must be a number from 1 to {MAX_THREADS}")
        self.budget = budget or Budget()
        self.seed, self.threads = seed, threads
        self.initial_solutions, self.guide, self.bound = initial_solutions, guide, bound
        self.evaluations = self.work = 0
        self.trace: list[TracePoint] = []
        self.incumbent: Incumbent | None = None
        self._on_progress, self._interrupted = on_progress, interrupted
        self._began = time.perf_counter()
        self._whole: SearchRun | None = None
        self._is_of_other_problem = False
        self._lock = threading.RLock()

    @property
    def seconds(self) -> float:
        """The seconds since the run was made."""
        return time.perf_counter() - self._began

    @property
    def evaluations_left(self) -> int:
        return max(0, self.budget.evaluations - self.evaluations)

    @property
    def seconds_left(self) -> float | None:
        """The seconds left; None without a time limit, negative when it is over."""
        return None if self.budget.seconds is None else self.budget.seconds - self.seconds

    @property
    def last_tenth(self) -> int:
        """The number of evaluations after which the last tenth of the budget begins."""
        return self.budget.evaluations - self.budget.evaluations // 10

    def gained_lately(self) -> bool:
        """True if the best so far changed in the last tenth of the evaluations; `drive` reports where it begins."""
        return self.trace != [] and self.trace[-1].evaluations > self.last_tenth

    def is_interrupted(self) -> bool:
        """True if the user, or the run that this is a part of, wants it to end."""
        asked = self._interrupted is not None and self._interrupted()
        return asked or (self._whole is not None and self._whole.is_interrupted())

    def reason_to_stop(self) -> StopReason | None:
        """Return the limit that is reached, or "interrupted"; None while the search may go on."""
        if self.evaluations_left == 0:
            return "evaluations"
        if self.budget.seconds is not None and self.seconds >= self.budget.seconds:
            return "time"
        return "interrupted" if self.is_interrupted() else None

    def is_optimal(self, best: int, bytes_over_limit: int) -> bool:
        """True if a solution of that objective is within limits and meets the bound."""
        return status_of(best, bytes_over_limit, self.bound) == "optimal"

    def part(
        self,
        share: float = 1.0,
        *,
        evaluations: int | None = None,
        seconds: float | None = None,
        seed: int | None = None,
        threads: int | None = None,
        initial_solutions: Sequence[Solution] = (),
        guide: Proposal | None = None,
        interrupted: Interrupted | None = None,
    ) -> SearchRun:
        """Return a run that may spend a share of what is left of this one, of evaluations and of time.

        evaluations, seconds: instead of the share, no more than what is left. The other arguments are the part's own;
        seed and threads default to this run's.
        """
        # A float may round up beyond what is left.
        left = self.evaluations_left if share == 1 else min(self.evaluations_left, int(self.evaluations_left * share))
        if evaluations is not None:
            left = min(self.evaluations_left, evaluations)
        time_left = self.seconds_left
        if time_left is not None:
            time_left = time_left * share if seconds is None else min(time_left, seconds)
            time_left = max(_LEAST_SECONDS, time_left)
        part = SearchRun(
            Budget(evaluations=max(1, left), seconds=time_left),
            seed=self.seed if seed is None else seed,
            threads=self.threads if threads is None else threads,
            initial_solutions=initial_solutions,
            guide=guide,
            bound=self.bound,
            interrupted=interrupted,
        )
        part._whole, part._lock = self, self._lock
        return part

    def part_until(self, share: float) -> SearchRun:
        """Return a run on another problem that represents this run's: it may spend what is left until a share of this
        run's whole budget is spent. Its evaluations count for this run, its solutions do not."""
        until, limit = max(1, int(self.budget.evaluations * share)), self.budget.seconds
        part = self.part(
            evaluations=max(1, until - self.evaluations),
            seconds=None if limit is None else limit * share - self.seconds,
        )
        part._is_of_other_problem = True
        return part

    def spend(self, evaluations: int) -> None:
        """Count evaluations that found nothing to report."""
        with self._lock:
            run: SearchRun | None = self
            while run is not None:
                run.evaluations += evaluations
                run = run._whole

    def report(self, method: str, best: int, bytes_over_limit: int, *, evaluations: int = 0) -> None:
        """Count evaluations and report the search's present best: its objective, in ns or bytes, and its bytes over the
        limits."""
        with self._lock:
            self.spend(evaluations)
            run = self
            while True:
                run._note(best, bytes_over_limit)
                if run._whole is None or run._is_of_other_problem:
                    break
                run = run._whole
            if run._on_progress is not None:
                last = run.trace[-1]
                run._on_progress(
                    Progress(
                        method=method,
                        evaluations=run.evaluations,
                        seconds=run.seconds,
                        best=last.best,
                        bytes_over_limit=last.bytes_over_limit,
                    )
                )

    def _note(self, best: int, bytes_over_limit: int) -> None:
        if not self.trace or (bytes_over_limit, best) < (self.trace[-1].bytes_over_limit, self.trace[-1].best):
            self.trace.append(
                TracePoint(
                    evaluations=self.evaluations, seconds=self.seconds, best=best, bytes_over_limit=bytes_over_limit
                )
            )

    def offer(
        self, problem: Problem, solution: Solution, method: str, *, found_by: str | None = None, evaluations: int = 1
    ) -> Metrics:
        """Simulate a solution, count it as so many evaluations, and keep it if it is better than those offered before.
        found_by: the part of the method, if it is not the method itself."""
        metrics = measure(problem, solution)
        fitness = metrics.fitness(problem.objective)
        if self.incumbent is None or fitness < self.incumbent.metrics.fitness(problem.objective):
            self.incumbent = Incumbent(solution=solution, metrics=metrics, found_by=found_by or method)
        best = metrics.objective_value(problem.objective)
        self.report(method, best, metrics.bytes_over_limit, evaluations=evaluations)
        return metrics

    def result(
        self,
        problem: Problem,
        method: str,
        solution: Solution | None = None,
        *,
        stopped_because: StopReason = "complete",
        configuration: Mapping[str, Any] | None = None,
        proven_bound: int | None = None,
        baselines: tuple[Result, ...] = (),
    ) -> Result:
        """Build the method's result: a solution, or the best that was offered, with what was spent.

        configuration: JSON values; those of a frozen configuration come from `settings_of`.
        """
        found = self.incumbent
        if solution is not None:
            found = Incumbent(solution=solution, metrics=measure(problem, solution), found_by=method)
        if found is None:
            raise InputError(f"method '{method}' made no solution")
        return Result(
            method=method,
            solution=found.solution,
            metrics=found.metrics,
            found_by=found.found_by,
            evaluations=self.evaluations,
            seconds=self.seconds,
            stopped_because=stopped_because,
            seed=self.seed,
            configuration=configuration or {},
            trace=tuple(self.trace),
            baselines=baselines,
            proven_bound=proven_bound,
        )


def settings_of(method: DataclassInstance) -> dict[str, Any]:
    """Return the fields of a frozen configuration as JSON values, without its name, which decides nothing."""
    return {name: _as_json(value) for name, value in asdict(method).items() if name != "name"}


def _as_json(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_as_json(part) for part in value]
    return {name: _as_json(part) for name, part in value.items()} if isinstance(value, dict) else value
