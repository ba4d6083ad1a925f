"""Workers that are actors of a Ray cluster, with a core each.

The suite travels once, through Ray's object store. Graphs that it reads only when they are asked for, and plugins, are
read on each machine from the same path.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from placewright.lab.bench.protocol import BenchSuite, Run
from placewright.lab.bench.work import Done, Failure, Job, Message, answer
from placewright.lab.bench.workers import WorkerDiedError
from placewright.lab.ray_cluster import SECONDS_TO_START, check_cores, connect, wait_for_start
from placewright.methods.plugins import load_plugins
from placewright.support.errors import PlacewrightError, shown
from placewright.version import VERSION

import ray  # isort: skip  (ray_cluster says what is missing without it)
from ray.actor import ActorHandle
from ray.exceptions import RayError, RayTaskError


class RayWorker:
    """pending: what it is asked, one run at a time, so that its death costs no more; None where an answer is here.
    has_started: whether its actor lives already."""

    def __init__(self, actor: ActorHandle, *, has_started: bool) -> None:
        self.actor = actor
        self.waits_for = (
            "" if has_started else f"a node of the Ray cluster with a free core, {SECONDS_TO_START} s at most"
        )
        self.pending: ray.ObjectRef | None = None if has_started else actor.version.remote()
        self._runs = deque[Run]()

    def send(self, job: Job) -> None:
        self._job, self._runs = job, deque(job.runs)
        self._ask()

    def receive(self) -> Message:
        if self.waits_for:
            wait_for_start([self.actor])
            self.waits_for, self.pending = "", None
        if self.pending is None:
            return Done()
        try:
            message: Message = ray.get(self.pending)
        except RayTaskError as error:
            ray.kill(self.actor)
            raise WorkerDiedError(f"failed: {shown(str(error.cause))}") from error
        except (RayError, ConnectionError) as error:
            raise WorkerDiedError("was lost") from error
        if isinstance(message, Failure) and message.run is None:
            self._runs.clear()
        self._ask()
        return message

    def _ask(self) -> None:
        run = self._runs.popleft() if self._runs else None
        self.pending = None if run is None else self.actor.answer.remote(self._job.instance, self._job.label, run)


class RayWorkers:
    """address, most: as `connect` takes them. plugins: as `load_plugins` does.

    A context, as the connection lasts. Raises InputError where there is no such cluster, or it has too few cores or
    another placewright, PlacewrightError when an actor does not start.
    """

    def __init__(self, address: str, most: int, suite: BenchSuite, plugins: Sequence[Path] = ()) -> None:
        self._connection = connect(address, most)
        self._spare: list[ActorHandle] = []
        try:
            check_cores(most)
            self._suite, self._plugins = ray.put(suite), tuple(plugins)
            self._spare += [self._actor() for _ in range(most)]
            wait_for_start(self._spare)  # at once: each imports for seconds
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self) -> RayWorkers:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.end(self._spare)

    def start(self) -> RayWorker:
        """One of those that have started, or a new one, which may have to wait for a node."""
        if self._spare:
            return RayWorker(self._spare.pop(), has_started=True)
        return RayWorker(self._actor(), has_started=False)

    def _actor(self) -> ActorHandle:
        # In a list, so that the actor knows its plugins before it reads the suite.
        return ray.remote(_Actor).options(num_cpus=1).remote([self._suite], self._plugins)

    def ready(self, workers: Sequence[RayWorker]) -> Sequence[RayWorker]:
        if done := [worker for worker in workers if worker.pending is None]:
            return done
        lives = any(not worker.waits_for for worker in workers)
        pending = [worker.pending for worker in workers]
        answered, _ = ray.wait(pending, num_returns=1, timeout=None if lives else SECONDS_TO_START)
        if not answered:
            raise PlacewrightError(
                f"all actors were lost, and the Ray cluster had no core for another in {SECONDS_TO_START} s; the rows "
                "so far are kept, and the same command goes on"
            )
        return [worker for worker in workers if worker.pending in answered]

    def end(self, workers: Sequence[RayWorker]) -> None:
        _kill([worker.actor for worker in workers])


def _kill(actors: Sequence[ActorHandle]) -> None:
    with suppress(RayError, ConnectionError):  # a connection that is lost is no news here
        for actor in actors:
            ray.kill(actor)


class _Actor:
    """Keeps the problem of the instance that it was asked of last."""

    def __init__(self, suite: list[ray.ObjectRef], plugins: Sequence[Path]) -> None:
        load_plugins(plugins)
        self._suite: BenchSuite = ray.get(suite[0])
        self._instance, self._problem = -1, None

    def version(self) -> str:
        return VERSION

    def answer(self, instance: int, label: str, run: Run) -> Message:
        if instance != self._instance:
            try:
                self._instance, self._problem = instance, self._suite.problem_at(instance)
            except PlacewrightError as error:
                self._instance = -1
                return Failure(label=label, run=None, reason=str(error))
        return answer(self._suite, self._problem, label, run)
