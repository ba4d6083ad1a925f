"""What runs the jobs of a comparison: processes of this machine (processes.py) or actors of a Ray cluster
(ray_workers.py)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from placewright.lab.bench.work import Job, Message


class WorkerDiedError(Exception):
    """A worker ended before its job; the message says how: "was killed by signal 9"."""


class Worker(Protocol):
    """Does one job at a time, and answers run by run.

    Attributes
    ----------
    waits_for
        What it needs before it can take a job, as a noun; "" once it can. It then answers `Done`.
    """

    waits_for: str

    def send(self, job: Job) -> None:
        """A job, when the last one is done. That the worker died is told by `receive`."""
        ...

    def receive(self) -> Message:
        """The next answer, waiting for it. Raises WorkerDiedError when there will be none."""
        ...


W = TypeVar("W", bound=Worker)


class Workers(Protocol[W]):
    """Workers of one kind, for one suite."""

    def start(self) -> W:
        """One more. Raises InputError where there cannot be one."""
        ...

    def ready(self, workers: Sequence[W]) -> Sequence[W]:
        """Waits until at least one of them has an answer, or has died; those that have."""
        ...

    def end(self, workers: Sequence[W]) -> None:
        """Ends those that live, whatever they do."""
        ...
