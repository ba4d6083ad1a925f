"""Actors of a Ray cluster that roll out and differentiate, in place of the processes of one machine.

The training sends the graphs once, through Ray's object store, so other machines need no folder of them; each actor
holds its own. In a step the weights travel once to each machine, a graph's number and seeds to an actor, and its
gradient back. Every machine needs this version of placewright, PyTorch and Ray.
"""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType

from placewright.datasets.problem_set import ProblemSet
from placewright.learning.training import Split, TrainingConfiguration
from placewright.learning.workers import (
    DEATH,
    MAX_OPS_KEPT,
    Answer,
    Job,
    SentConfiguration,
    Weights,
    Workers,
    init_worker,
)
from placewright.support.errors import InputError, MissingExtraError, PlacewrightError, shown
from placewright.version import VERSION

try:
    import ray
    from ray.actor import ActorHandle
    from ray.exceptions import GetTimeoutError, RayError, RayTaskError
    from ray.util import ActorPool
except ImportError as error:
    raise MissingExtraError("Ray", "ray", "training with --ray") from error

#: An actor imports PyTorch, and where other machines do so for the first time from a disk that many share.
_SECONDS_TO_START = 300


class RayWorkers(Workers):
    """So many actors, with a core each."""

    def __init__(
        self, address: str, problem_sets: Mapping[Split, ProblemSet], configuration: TrainingConfiguration, actors: int
    ) -> None:
        """address: as `connect` takes it. problem_sets: as `problem_sets_of` has them.

        Raises InputError when there is no such cluster or it has too few cores, PlacewrightError when an actor does not
        start.
        """
        self._is_own_connection = connect(address, actors)
        self._actors: list[ActorHandle] = []
        try:
            self._start(problem_sets, configuration, actors)
        except BaseException:
            self._end()
            raise

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._end()

    def _start(
        self, problem_sets: Mapping[Split, ProblemSet], configuration: TrainingConfiguration, actors: int
    ) -> None:
        check_cores(actors)
        graphs = ray.put(dict(problem_sets))
        make = ray.remote(_Actor).options(num_cpus=1)
        sent = SentConfiguration.of(configuration)
        self._actors = [make.remote(graphs, sent, MAX_OPS_KEPT // actors) for _ in range(actors)]
        wait_for_start(self._actors)

    def _end(self) -> None:
        if self._is_own_connection:
            ray.shutdown()  # ends its actors too
        else:
            with suppress(RayError, ConnectionError):  # a connection that is lost is no news here
                for actor in self._actors:
                    ray.kill(actor)

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


def check_cores(actors: int) -> None:
    """Raises InputError where the cluster has fewer."""
    if (cores := int(ray.cluster_resources().get("CPU", 0))) < actors:
        raise InputError(f"the Ray cluster has {cores} cores, too few for {actors} actors")


def wait_for_start(actors: Sequence[ActorHandle]) -> None:
    """Until each has told its `version`. Raises InputError where that is not this one, PlacewrightError when one does
    not start."""
    try:
        versions = ray.get([actor.version.remote() for actor in actors], timeout=_SECONDS_TO_START)
    except GetTimeoutError as error:
        raise PlacewrightError(
            f"{len(actors)} actors did not start in {_SECONDS_TO_START} s: the Ray cluster has too few cores to spare"
        ) from error
    except (RayError, ConnectionError, ImportError, AttributeError) as error:  # the last two: no placewright there
        reason = shown(str(error).strip().rpartition("\n")[2])
        raise PlacewrightError(f"an actor of the training does not start: {reason}") from error
    if others := set(versions) - {VERSION}:
        raise InputError(f"the Ray cluster has placewright {min(others)}, this is {VERSION}")


def connect(address: str, cores: int) -> bool:
    """Whether this program has connected only now; one that is connected to a cluster already stays with it.

    address: "local" for a cluster of this machine with so many cores, which ends with the connection; "auto" for the
    one that Ray finds (RAY_ADDRESS, or one running here); "ray://HOST:PORT" for a client of one elsewhere.
    Raises InputError when it cannot be used.
    """
    if address not in ("auto", "local") and not address.startswith("ray://"):
        raise InputError(
            f"'{shown(address)}' is not the address of a Ray cluster; allowed are auto, local and ray://HOST:PORT"
        )
    if ray.is_initialized():
        return False
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # otherwise Ray warns of what it means to change
    own = {"num_cpus": cores, "include_dashboard": False} if address == "local" else {}
    try:
        with warnings.catch_warnings(action="ignore"):  # the error says the same
            ray.init(address, log_to_driver=False, logging_level=logging.ERROR, **own)
    except Exception as error:  # of many kinds: no cluster, another version of Python or Ray, a port that is taken ...
        reason = shown(str(error).strip().partition("\n")[0].partition(". ")[0])
        raise InputError(f"there is no Ray cluster to use at '{shown(address)}': {reason}") from error
    return True
