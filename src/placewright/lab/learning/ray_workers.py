"""Actors of a Ray cluster that roll out and differentiate, in place of the processes of one machine.

The training sends the graphs once, through Ray's object store, so other machines need no folder of them; each actor
holds its own. In a step the weights travel once to each machine, a graph's number and seeds to an actor, and its
gradient back. Every machine needs this version of placewright, PyTorch and Ray.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import TracebackType

from placewright.lab.datasets.problem_set import ProblemSet
from placewright.lab.learning.training import Split, TrainingConfiguration
from placewright.lab.learning.workers import (
    DEATH,
    MAX_OPS_KEPT,
    Answer,
    Job,
    SentConfiguration,
    Weights,
    Workers,
    init_worker,
)
from placewright.lab.ray_cluster import check_cores, connect, wait_for_start
from placewright.support.errors import PlacewrightError
from placewright.version import VERSION

import ray  # isort: skip  (ray_cluster says what is missing without it)
from ray.actor import ActorHandle
from ray.exceptions import RayError, RayTaskError
from ray.util import ActorPool


class RayWorkers(Workers):
    """So many actors, with a core each."""

    def __init__(
        self, address: str, problem_sets: Mapping[Split, ProblemSet], configuration: TrainingConfiguration, actors: int
    ) -> None:
        """address: as `connect` takes it. problem_sets: as `problem_sets_of` has them.

        Raises InputError when there is no such cluster or it has too few cores, PlacewrightError when an actor does not
        start.
        """
        self._connection = connect(address, actors)
        self._actors: list[ActorHandle] = []
        try:
            self._start(problem_sets, configuration, actors)
        except BaseException:
            self._connection.end(self._actors)
            raise

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._connection.end(self._actors)

    def _start(
        self, problem_sets: Mapping[Split, ProblemSet], configuration: TrainingConfiguration, actors: int
    ) -> None:
        check_cores(actors)
        graphs = ray.put(dict(problem_sets))
        make = ray.remote(_Actor).options(num_cpus=1)
        sent = SentConfiguration.of(configuration)
        self._actors = [make.remote(graphs, sent, MAX_OPS_KEPT // actors) for _ in range(actors)]
        wait_for_start(self._actors)

    def _all(self, work: Callable[[Weights, Job], Answer], weights: Weights, jobs: Sequence[Job]) -> list[Answer]:
        try:
            shared = ray.put(weights)
            answers: dict[int, Answer] = dict(
                ActorPool(self._actors).map_unordered(
                    lambda actor, job: actor.answer.remote(work, shared, *job), enumerate(jobs)
                )
            )
        except RayTaskError as error:
            raise error.cause from error  # what a process of the pool would have raised
        except (RayError, ConnectionError) as error:
            raise PlacewrightError(DEATH) from error
        return [answers[number] for number in range(len(jobs))]


class _Actor:
    def __init__(self, problem_sets: Mapping[Split, ProblemSet], sent: SentConfiguration, max_ops: int) -> None:
        init_worker(problem_sets, sent.received(), max_ops)

    def version(self) -> str:
        return VERSION

    def answer(
        self, work: Callable[[Weights, Job], Answer], weights: Weights, number: int, job: Job
    ) -> tuple[int, Answer]:
        return number, work(weights.copy(), job)  # a copy, as PyTorch takes no array that cannot be written to
