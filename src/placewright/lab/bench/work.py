"""A benchmark worker: it solves an instance with one method after another and checks what they find."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from placewright.lab.bench.protocol import BenchSuite, Run, WrongPlanError
from placewright.lab.bench.rows import Row
from placewright.methods.plugins import load_plugins
from placewright.support.errors import InputError, MissingExtraError, PlacewrightError


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """All runs that are wanted for one instance, by its index in the suite."""

    instance: int
    label: str
    runs: tuple[Run, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A run that gives no row, with the reason; run is None where none of the job's runs can be made."""

    label: str
    run: Run | None
    reason: str


Message = Row | Failure


class BenchWorker:
    """Make rows in a process of its own. The worker keeps the problem of its last instance.

    Where a solver's package is missing or the suite cannot be read, it raises a one-sentence InputError.
    """

    def __init__(self, plugins: Sequence[Path], suite_of: Callable[..., BenchSuite], *arguments: Any) -> None:
        """Load the plugins, which may define what is in the suite, and then make the suite: suite_of(*arguments)."""
        try:
            load_plugins(plugins)
            self._suite = suite_of(*arguments)
        except PlacewrightError as error:
            raise InputError(str(error)) from error
        self._instance, self._problem = -1, None

    def answer(self, instance: int, label: str, run: Run) -> Message:
        """Return the row of a run, or why there is none."""
        if instance != self._instance:
            self._instance = -1
            try:
                self._problem = self._suite.problem_at(instance)
            except PlacewrightError as error:
                return Failure(label=label, run=None, reason=str(error))
            self._instance = instance
        try:
            return self._suite.row(self._problem, label, run)
        except MissingExtraError as error:
            raise InputError(str(error)) from error
        except WrongPlanError as error:
            return Failure(label=label, run=run, reason=f"WRONG PLAN: {error}")
        except PlacewrightError as error:
            return Failure(label=label, run=run, reason=str(error))
        except Exception:
            # Any exception is the method's defect; the other rows are still wanted, so the reason is kept.
            return Failure(label=label, run=run, reason=traceback.format_exc().strip())
