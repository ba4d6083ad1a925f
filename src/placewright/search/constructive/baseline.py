"""The common part of all baselines: they make a few candidates, evaluate them within the budget and keep the best."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import placewright._core as _core
from placewright.problem import Problem
from placewright.problem.objective import StopReason
from placewright.search.run.budget import UNLIMITED
from placewright.search.run.result import Result, Solution, TracePoint, measure
from placewright.search.run.search_run import SearchRun

Fitness = tuple[int, int, int]


@dataclass(frozen=True, kw_only=True, eq=False)
class Candidate:
    """A solution to be evaluated.

    name: the part of the method that made it. device_of: int32 [num scheduled ops].
    order: int32 [num scheduled ops], ops to which transfers are added, the best of early, late and (where transfers
        block) batched ones, each an evaluation; or int32 [num steps, 2], a whole order that is used unchanged.
    """

    name: str
    device_of: NDArray[np.int32]
    order: NDArray[np.int32]


@dataclass(frozen=True, kw_only=True, eq=False)
class Evaluated:
    """The whole solution of a candidate with its costs (Metrics.fitness) and the number of evaluations used."""

    name: str
    solution: Solution
    fitness: Fitness
    evaluations: int


def evaluate(problem: Problem, candidate: Candidate, evaluations_left: int) -> Evaluated:
    """Evaluate a candidate in one to three evaluations, never more than are left."""
    if candidate.order.ndim == 2:
        solution = Solution(device_of=candidate.device_of, order=candidate.order)
        fitness = measure(problem, solution).fitness(problem.objective)
        return Evaluated(name=candidate.name, solution=solution, fitness=fitness, evaluations=1)
    order, fitness, evaluations = _core.best_transfers(
        problem.core, candidate.device_of, candidate.order, evaluations_left
    )
    solution = Solution(device_of=candidate.device_of, order=order)
    return Evaluated(name=candidate.name, solution=solution, fitness=fitness, evaluations=evaluations)


class Baseline(ABC):
    """A cheap known method: makes a few candidates and keeps the best, the first of equals. The first is always made;
    the others while the budget lasts and until one `is_enough`. All evaluated candidates count.

    name: an attribute of the class, or a field of one that is a dataclass of settings.
    """

    name: str

    @abstractmethod
    def candidates(self, problem: Problem) -> Iterator[Candidate]:
        """Yield at least one candidate. A generator is sent the fitness of each candidate, so that the next can depend
        on it."""

    def is_enough(self, fitness: Fitness) -> bool:
        """True if a candidate of that fitness makes the others superfluous."""
        return False

    def solve(self, problem: Problem, run: SearchRun) -> Result:
        """Solve as `Method.solve` does; the seed does not matter."""
        trial = Trial(self, problem, run)
        while trial.advance(run.evaluations_left):
            if (reason := run.reason_to_stop()) is not None:
                return trial.result(reason)
        return trial.result("complete")


class Trial:
    """A baseline at work on a problem, one candidate at a time, as a part of a run.

    evaluations, seconds: spent on its candidates. is_complete: True if no other candidate is worth making.
    """

    def __init__(self, method: Baseline, problem: Problem, run: SearchRun) -> None:
        self.method = method
        self.evaluations = 0
        self.seconds = 0.0
        self.is_complete = False
        self._problem, self._run = problem, run
        self._candidates = method.candidates(problem)
        self._best: Evaluated | None = None
        self._last: Fitness | None = None
        self._trace: list[TracePoint] = []

    @property
    def best(self) -> Fitness:
        """The best fitness of the candidates so far, of which there must be one."""
        assert self._best is not None, f"method '{self.method.name}' has no candidates"
        return self._best.fitness

    def advance(self, evaluations_left: int = UNLIMITED) -> bool:
        """Make and evaluate the next candidate, in no more evaluations than are left, and report to the run. Returns
        False if there was none."""
        began = time.perf_counter()
        candidate = self._next() if not self.is_complete else None
        if candidate is None:
            self.is_complete = True
            return False
        found = evaluate(self._problem, candidate, evaluations_left)
        self.evaluations += found.evaluations
        self.seconds += time.perf_counter() - began
        self._last = found.fitness
        self.is_complete = self.method.is_enough(found.fitness)
        if self._best is None or found.fitness < self._best.fitness:
            self._best = found
            self._trace.append(
                TracePoint(
                    evaluations=self.evaluations, seconds=self.seconds, best=self.best[1], bytes_over_limit=self.best[0]
                )
            )
        self._run.report(self.method.name, self.best[1], self.best[0], evaluations=found.evaluations)
        return True

    def _next(self) -> Candidate | None:
        if self._last is None or not isinstance(self._candidates, Generator):
            return next(self._candidates, None)
        try:
            candidate: Candidate = self._candidates.send(self._last)
        except StopIteration:
            return None
        return candidate

    def result(self, stopped_because: StopReason) -> Result:
        """Return the result with the best candidate, the first of equals."""
        name, best = self.method.name, self._best
        assert best is not None, f"method '{name}' has no candidates"
        return Result(
            method=name,
            solution=best.solution,
            metrics=measure(self._problem, best.solution),
            found_by=name if best.name == name else f"{name}: {best.name}",
            evaluations=self.evaluations,
            seconds=self.seconds,
            stopped_because=stopped_because,
            seed=self._run.seed,
            trace=tuple(self._trace),
        )
