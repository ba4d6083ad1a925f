"""The interface of methods."""

from __future__ import annotations

from typing import Protocol

from placewright.problem import Problem
from placewright.search.run.result import Result
from placewright.search.run.search_run import SearchRun


class Search(Protocol):
    """Anything that solves a problem. The same problem, seed and evaluations give the same solution, bit for bit."""

    def solve(self, problem: Problem, run: SearchRun) -> Result:
        """Return the best solution found within the run's budget; always one, feasible or not.

        Parameters
        ----------
        problem
            The problem to solve.
        run
            The budget, the seed, and initial solutions; `reason_to_stop` must be called now and then.

        Returns
        -------
        Result
            As `run.result` makes it.
        """
        ...


class Method(Search, Protocol):
    """A search with a name for users."""

    @property
    def name(self) -> str: ...
