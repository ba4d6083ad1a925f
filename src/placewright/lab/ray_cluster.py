"""Actors that are processes of a Ray cluster: the connection to it, and that they are of this placewright."""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from placewright.lab.actors import Actor, ActorLostError, Actors, Pending
from placewright.support.errors import InputError, MissingExtraError, PlacewrightError, shown
from placewright.version import VERSION

try:
    import ray
    from ray.actor import ActorHandle
    from ray.exceptions import GetTimeoutError, ObjectLostError, RayActorError, RayError, RayTaskError
except ImportError as error:
    raise MissingExtraError("Ray", "ray", "--ray") from error

#: The head of a cluster answers at once.
_ANSWER_S = 5.0


class RayActors(Actors):
    """So many, with a core each. Every machine needs this version of placewright and what the actors import.

    Raises InputError when there is no such cluster or it has too few cores. address: as `connect` takes it.
    """

    seconds_to_start = 300  # an actor imports PyTorch, perhaps for the first time from a disk that many machines share

    def __init__(self, address: str, count: int) -> None:
        self._connection = connect(address, count)
        self._handles: list[ActorHandle] = []
        if (cores := int(ray.cluster_resources().get("CPU", 0))) < count:
            self._connection.end([])
            raise InputError(f"the Ray cluster has {cores} cores, too few for {count} actors")

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._connection.end(self._handles)

    @property
    def needed_to_start(self) -> str:
        return f"a node of the Ray cluster with a free core, {self.seconds_to_start} s at most"

    def shared(self, value: Any) -> Any:
        return ray.put(value)

    def make(self, kind: Callable[..., Any], *arguments: Any) -> Actor:
        handle = ray.remote(_Host).options(num_cpus=1).remote(kind, *arguments)
        self._handles.append(handle)
        return RayActor(handle)

    def get(self, pending: Pending) -> Any:
        try:
            return ray.get(pending)
        except RayTaskError as error:
            cause: BaseException = error
            while isinstance(cause, RayTaskError) and isinstance(cause.cause, BaseException) and cause.cause != cause:
                cause = cause.cause
            if isinstance(cause, RayError) and not isinstance(cause, RayTaskError):
                raise ActorLostError("was lost") from error
            raise cause from error
        except (RayActorError, ObjectLostError, ConnectionError) as error:
            raise ActorLostError("was lost") from error

    def first(self, pending: Sequence[Pending], seconds: float | None = None) -> int | None:
        done, _ = ray.wait(list(pending), num_returns=1, timeout=seconds)
        return next((place for place, each in enumerate(pending) if each in done), None)

    def starting(self, actor: Actor) -> Pending:
        return _handle(actor).version.remote()

    def wait_for_start(self, actors: Sequence[Actor]) -> None:
        """Raises InputError where the placewright of an actor is another one."""
        try:
            versions = ray.get([self.starting(actor) for actor in actors], timeout=self.seconds_to_start)
        except GetTimeoutError as error:
            raise PlacewrightError(
                f"{len(actors)} actors did not start in {self.seconds_to_start} s: the Ray cluster has too few cores "
                "to spare"
            ) from error
        except (RayError, ConnectionError, ImportError, AttributeError) as error:  # the last two: no placewright there
            reason = shown(str(error).strip().rpartition("\n")[2])
            raise PlacewrightError(f"an actor does not start: {reason}") from error
        if others := set(versions) - {VERSION}:
            raise InputError(f"the Ray cluster has placewright {min(others)}, this is {VERSION}")

    def end(self, actor: Actor) -> None:
        with suppress(RayError, ConnectionError):  # a connection that is lost is no news here
            ray.kill(_handle(actor))


class _Host:
    """What runs in the process."""

    def __init__(self, kind: Callable[..., Any], *arguments: Any) -> None:
        self._content = kind(*arguments)

    def version(self) -> str:
        return VERSION

    def ask(self, question: str, *arguments: Any) -> Any:
        return getattr(self._content, question)(*arguments)


@dataclass(frozen=True)
class RayActor:
    handle: ActorHandle

    def ask(self, question: str, *arguments: Any) -> Pending:
        return self.handle.ask.remote(question, *arguments)


def _handle(actor: Actor) -> ActorHandle:
    assert isinstance(actor, RayActor)
    return actor.handle


#: Says its argument on stderr, unless it is told before that all is well.
_WATCH = "import sys; sys.stdin.read() or print(sys.argv[1], file=sys.stderr)"


class Connection:
    """A connection to a cluster, and its end. is_own: whether it was made here. watched: the address of a cluster that
    Ray ends the process with, at once and without a word; "" where it does not."""

    def __init__(self, *, is_own: bool, watched: str = "") -> None:
        self._is_own = is_own
        self._watcher: subprocess.Popen[str] | None = None
        if watched:
            told = (
                "placewright: error: the program was ended from outside, as Ray does when the head of its cluster "
                f"({shown(watched)}) or the node on this machine is gone"
            )
            command = [sys.executable, "-I", "-c", _WATCH, told]
            self._watcher = subprocess.Popen(command, stdin=subprocess.PIPE, text=True, start_new_session=True)

    def end(self, actors: Sequence[ActorHandle]) -> None:
        """Ends the connection and so the actors; of a connection that others have, too, only these."""
        if self._is_own:
            ray.shutdown()
        else:
            with suppress(RayError, ConnectionError):  # a connection that is lost is no news here
                for actor in actors:
                    ray.kill(actor)
        if self._watcher is not None:
            self._watcher.communicate("all is well")


def connect(address: str, cores: int) -> Connection:
    """A connection made now; a program that is connected to a cluster already stays with it.

    address: "local" for a cluster of this machine with so many cores, which ends with the connection; "auto" for the
    one that Ray finds (RAY_ADDRESS, or one running here); "HOST:PORT", as Ray prints it, for one that this machine is a
    node of; "ray://HOST:PORT" for a client of one elsewhere.
    Raises InputError when it cannot be used.
    """
    host, _, port = address.rpartition(":")
    if address not in ("auto", "local") and not address.startswith("ray://") and not (host and port.isdecimal()):
        raise InputError(
            f"'{shown(address)}' is not the address of a Ray cluster; allowed are auto, local, HOST:PORT and "
            "ray://HOST:PORT"
        )
    if ray.is_initialized():
        return Connection(is_own=False)
    if host and port.isdecimal() and not address.startswith("ray://"):
        _require_answer(address, host, int(port))
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # otherwise Ray warns of what it means to change
    own = {"num_cpus": cores, "include_dashboard": False} if address == "local" else {}
    try:
        with warnings.catch_warnings(action="ignore"):  # the error says the same
            ray.init(address, log_to_driver=False, logging_level=logging.ERROR, **own)
    except Exception as error:  # of many kinds: no cluster, another version of Python or Ray, a port that is taken ...
        reason = shown(str(error).strip().partition("\n")[0].partition(". ")[0])
        raise InputError(f"there is no Ray cluster to use at '{shown(address)}': {reason}") from error
    return Connection(is_own=True, watched="" if address == "local" or address.startswith("ray://") else address)


def _require_answer(address: str, host: str, port: int) -> None:
    """Raises InputError where nobody listens: Ray tries again for minutes."""
    try:
        socket.create_connection((host, port), timeout=_ANSWER_S).close()
    except (OSError, OverflowError) as error:
        raise InputError(f"there is no Ray cluster to use at '{shown(address)}': {shown(str(error))}") from error
