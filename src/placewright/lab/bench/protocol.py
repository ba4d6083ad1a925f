"""What a suite is to those who run it, whatever kind of problem it holds: placements or maps to memory levels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from placewright.lab.bench.rows import Header, Key, Row
from placewright.methods.policies import Policy
from placewright.search.run.budget import UNLIMITED, Budget
from placewright.support.records import same_named


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A solver under its limits, None for none, with one seed. code: of the solver (code_version.py)."""

    solver: str
    evaluations: int | None
    seconds: float | None
    seed: int
    code: str = ""

    def key(self, label: str) -> Key:
        """Of the row this run gives on the instance of that label."""
        return (label, self.solver, self.evaluations, self.seconds, self.seed)

    @property
    def budget(self) -> Budget:
        return Budget(evaluations=self.evaluations or UNLIMITED, seconds=self.seconds)


def row_of(found: Any, label: str, run: Run, **values: Any) -> Row:
    """The row of a plan or map: what it has under the names of columns, and values that only its kind knows."""
    of_run = {"solver": run.solver, "seed": run.seed, "code": run.code}
    limits = {"evaluations_limit": run.evaluations, "time_limit_s": run.seconds}
    own = {"graph": label, "num_ops": len(found.ops), "seconds": round(found.seconds, 6), **of_run, **limits, **values}
    return Row(**{**same_named(Row, found), **own})


class WrongPlanError(Exception):
    """An independent checker refutes what a method found; the message is what it says."""


class BenchSuite(Protocol):
    """Problems by number, and what their kind of problem knows: its solvers, and how a result becomes a row.

    All raise InputError for a solver or policy there is none of.
    """

    @property
    def name(self) -> str: ...

    @property
    def labels(self) -> list[str]:
        """Names of the instances."""
        ...

    def header(self) -> Header:
        """What results of this suite start with, made now and here."""
        ...

    def is_limited(self, solver: str) -> bool:
        """Whether limits and seeds matter to it."""
        ...

    def policy_of(self, solver: str) -> Policy | None:
        """What guides it; None where nothing does, or the policy that is shipped for the problem."""
        ...

    def code_of(self, solver: str) -> str:
        """A digest of what it does with some small problems (code_version.py)."""
        ...

    def problem_at(self, index: int) -> Any:
        """A problem, with all that is no part of a method's time. Raises InputError where it cannot be made."""
        ...

    def row(self, problem: Any, label: str, run: Run) -> Row:
        """Solves and checks a problem of `problem_at`. Raises WrongPlanError with what the checker says."""
        ...
