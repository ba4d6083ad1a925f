"""What one worker process does: solves an instance with one method after another and checks what it finds."""

from __future__ import annotations

import signal
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from placewright.lab.bench.protocol import BenchSuite, Run, WrongPlanError
from placewright.lab.bench.rows import Row
from placewright.lab.bench.suites import find_suite
from placewright.lab.processes import end_with_parent
from placewright.methods.plugins import load_plugins
from placewright.support.errors import MissingExtraError, PlacewrightError


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """All runs that are wanted of one instance, by its index in the suite."""

    instance: int
    label: str
    runs: tuple[Run, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A run that gives no row, with the reason; run is None where none of the job's can be made."""

    label: str
    run: Run | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why the whole work must end: a solver's package is missing, or the suite cannot be read any more."""

    reason: str


@dataclass(frozen=True, slots=True)
class Done:
    """The end of a job."""


Message = Row | Failure | Refusal | Done


def serve(
    suite_path: Path,
    devices: str | None,
    dims: Mapping[str, int],
    plugins: Sequence[Path],
    connection: Connection,
) -> None:
    """The main function of a worker: takes jobs from the connection and answers with messages until the parent ends."""
    # The parent hears Ctrl-C too and ends its workers; until here they were started with it blocked.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    end_with_parent()
    try:
        for message in _answers(suite_path, devices, dims, plugins, connection):
            connection.send(message)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return  # The parent is gone; what it kept is kept.


def _answers(
    suite_path: Path,
    devices: str | None,
    dims: Mapping[str, int],
    plugins: Sequence[Path],
    connection: Connection,
) -> Iterator[Message]:
    try:
        load_plugins(plugins)
        suite = find_suite(suite_path, devices, dims)
    except PlacewrightError as error:
        yield Refusal(reason=str(error))
        return
    while True:
        yield from messages_of(suite, connection.recv())
        yield Done()


def messages_of(suite: BenchSuite, job: Job) -> Iterator[Message]:
    """An answer for each run, or one for all where there is no problem."""
    try:
        problem = suite.problem_at(job.instance)
    except PlacewrightError as error:
        yield Failure(label=job.label, run=None, reason=str(error))
    else:
        for run in job.runs:
            yield answer(suite, problem, job.label, run)


def answer(suite: BenchSuite, problem: Any, label: str, run: Run) -> Message:
    """The row of a run, or why there is none. problem: of `suite.problem_at`."""
    try:
        return suite.row(problem, label, run)
    except MissingExtraError as error:
        return Refusal(reason=str(error))
    except WrongPlanError as error:
        return Failure(label=label, run=run, reason=f"WRONG PLAN: {error}")
    except PlacewrightError as error:
        return Failure(label=label, run=run, reason=str(error))
    except Exception:
        # Whatever a method throws is its defect; the other rows are worth having, and the reason is kept.
        return Failure(label=label, run=run, reason=traceback.format_exc().strip())
