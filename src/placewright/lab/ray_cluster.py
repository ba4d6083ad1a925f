"""A connection to a Ray cluster, and that its actors are of this placewright."""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
import warnings
from collections.abc import Sequence
from contextlib import suppress

from placewright.support.errors import InputError, MissingExtraError, PlacewrightError, shown
from placewright.version import VERSION

try:
    import ray
    from ray.actor import ActorHandle
    from ray.exceptions import GetTimeoutError, RayError
except ImportError as error:
    raise MissingExtraError("Ray", "ray", "--ray") from error

#: An actor imports PyTorch, and where other machines do so for the first time from a disk that many share.
SECONDS_TO_START = 300
#: The head of a cluster answers at once.
_ANSWER_S = 5.0


def check_cores(actors: int) -> None:
    """Raises InputError where the cluster has fewer."""
    if (cores := int(ray.cluster_resources().get("CPU", 0))) < actors:
        raise InputError(f"the Ray cluster has {cores} cores, too few for {actors} actors")


def wait_for_start(actors: Sequence[ActorHandle]) -> None:
    """Until each has told its `version`. Raises InputError where that is not this one, PlacewrightError when one does
    not start."""
    try:
        versions = ray.get([actor.version.remote() for actor in actors], timeout=SECONDS_TO_START)
    except GetTimeoutError as error:
        raise PlacewrightError(
            f"{len(actors)} actors did not start in {SECONDS_TO_START} s: the Ray cluster has too few cores to spare"
        ) from error
    except (RayError, ConnectionError, ImportError, AttributeError) as error:  # the last two: no placewright there
        reason = shown(str(error).strip().rpartition("\n")[2])
        raise PlacewrightError(f"an actor does not start: {reason}") from error
    if others := set(versions) - {VERSION}:
        raise InputError(f"the Ray cluster has placewright {min(others)}, this is {VERSION}")


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
