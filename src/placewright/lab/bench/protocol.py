"""The interface of a suite, whatever kind of problem it holds: placements or maps to memory levels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from placewright.lab.bench.rows import Header, Key, Row
from placewright.methods.policies import Policy
from placewright.search.run.budget import UNLIMITED, Budget
from placewright.support.records import same_named


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A solver under its limits (None: unlimited) with one seed. code: digest of the solver's code
    (code_version.py)."""

    solver: str
    evaluations: int | None
    seconds: float | None
    seed: int
    code: str = ""

    def key(self, label: str) -> Key:
        """Return the key of the row that this run gives on the instance with that label."""
        return (label, self.solver, self.evaluations, self.seconds, self.seed)

    @property
    def budget(self) -> Budget:
        return Budget(evaluations=self.evaluations or UNLIMITED, seconds=self.seconds)


def row_of(found: Any, label: str, run: Run, **values: Any) -> Row:
    """Make the row of a plan or map from its attributes named like columns, and values that only its kind knows."""
    of_run = {"solver": run.solver, "seed": run.seed, "code": run.code}
    limits = {"evaluations_limit": run.evaluations, "time_limit_s": run.seconds}
    own = {"graph": label, "num_ops": len(found.ops), "seconds": round(found.seconds, 6), **of_run, **limits, **values}
    return Row(**{**same_named(Row, found), **own})


class WrongPlanError(Exception):
    """An independent checker refutes what a method found; the message is the checker's."""


class BenchSuite(Protocol):
    """Problems by number, and what depends on their kind: its solvers, and how a result becomes a row.

    All raise InputError for an unknown solver or policy.
    """

    @property
    def name(self) -> str: ...

    @property
    def labels(self) -> list[str]:
        """Names of the instances."""
        ...

    def header(self) -> Header:
        """Return the header of new results of this suite, with the current time and this processor."""
        ...

    def is_limited(self, solver: str) -> bool:
        """True if limits and seeds matter to the solver."""
        ...

    def policy_of(self, solver: str) -> Policy | None:
        """Return the policy that guides the solver; None where none does, or the shipped policy for the problem."""
        ...

    def code_of(self, solver: str) -> str:
        """Return a digest of what the solver does with some small problems (code_version.py)."""
        ...

    def problem_at(self, index: int) -> Any:
        """Make a problem, including all that does not count as a method's time. Raises InputError where it cannot be
        made."""
        ...

    def row(self, problem: Any, label: str, run: Run) -> Row:
        """Solve a problem of `problem_at` and check the result. Raises WrongPlanError with the checker's complaints."""
        ...
