"""Actors as processes of a Ray cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from placewright.lab.learning.distributed.actors import Actor, ActorLostError, Actors, Pending
from placewright.lab.ray_cluster import check_cores, connect, wait_for_start
from placewright.version import VERSION

import ray  # isort: skip  (ray_cluster says what is missing without it)
from ray.actor import ActorHandle
from ray.exceptions import ObjectLostError, RayActorError, RayError, RayTaskError

#: How often what was asked of an actor that dies over it is asked of its replacement.
_TRIES = 3


class RayActors(Actors):
    """count: how many will be made, each with a core."""

    def __init__(self, address: str, count: int) -> None:
        """Raises InputError when there is no such cluster or it has too few cores."""
        self._connection = connect(address, count)
        self._handles: list[ActorHandle] = []
        try:
            check_cores(count)
        except BaseException:
            self.__exit__(None, None, None)
            raise

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._connection.end(self._handles)

    def shared(self, value: Any) -> Any:
        return ray.put(value)

    def make(self, kind: Callable[..., Any], *arguments: Any, replaced: bool = True) -> Actor:
        restarts = {"max_restarts": -1, "max_task_retries": _TRIES} if replaced else {}
        # In a list, so that an actor that is made anew fetches what is shared by itself.
        handle = ray.remote(_Host).options(num_cpus=1, **restarts).remote(kind, list(arguments))
        self._handles.append(handle)
        return _RayActor(handle)

    def wait_for_start(self) -> None:
        wait_for_start(self._handles)

    def get(self, pending: Pending) -> Any:
        with _errors():
            return ray.get(pending)

    def first(self, pending: Sequence[Pending]) -> int:
        [done], _ = ray.wait(list(pending), num_returns=1)
        return next(number for number, each in enumerate(pending) if each == done)


class _Host:
    """What runs in the process."""

    def __init__(self, kind: Callable[..., Any], arguments: Sequence[Any]) -> None:
        self._content = kind(*(ray.get(each) if isinstance(each, ray.ObjectRef) else each for each in arguments))

    def version(self) -> str:
        return VERSION

    def ask(self, question: str, *arguments: Any) -> Any:
        return getattr(self._content, question)(*arguments)


@dataclass(frozen=True)
class _RayActor:
    handle: ActorHandle

    def ask(self, question: str, *arguments: Any, answers: int = 1) -> Pending:
        return self.handle.ask.options(num_returns=answers).remote(question, *arguments)

    def collected(self, pending: Sequence[Pending]) -> list[Any]:
        return list(ray.get(list(pending)))


@contextmanager
def _errors() -> Iterator[None]:
    """What was raised in an actor, or in one that it asked, as itself."""
    try:
        yield
    except RayTaskError as error:
        cause: BaseException = error
        while isinstance(cause, RayTaskError) and isinstance(cause.cause, BaseException) and cause.cause is not cause:
            cause = cause.cause
        if isinstance(cause, RayError) and not isinstance(cause, RayTaskError):
            raise ActorLostError(str(cause)) from error
        raise cause from error
    except (RayActorError, ObjectLostError, ConnectionError) as error:
        raise ActorLostError(str(error)) from error
