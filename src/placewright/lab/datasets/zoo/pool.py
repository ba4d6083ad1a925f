"""Captures many networks, in other processes if asked to, and hands them out in the order of the catalogue."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from queue import SimpleQueue
from types import TracebackType
from typing import Any, Self

from placewright.graph import Graph
from placewright.lab.datasets.zoo.capture import capture_network
from placewright.lab.datasets.zoo.network import Mode, Network
from placewright.lab.processes import ActorLostError, ProcessActor, ProcessActors
from placewright.support.errors import shown

#: A function at the top of a module, by whose name another process finds the networks, which may hold lambdas.
Networks = Callable[[], Sequence[Network]]
DIED = "its process died, perhaps for want of memory"


@dataclass(frozen=True, kw_only=True)
class Captured:
    """What became of one network in one mode: its graph, or in one sentence why there is none."""

    name: str
    graph: Graph | None
    failure: str
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Task:
    """One mode of the network at `index` among `networks()`."""

    networks: Networks
    index: int
    mode: Mode


def tasks_of(networks: Networks) -> list[Task]:
    """Every network in every mode it has."""
    return [
        Task(networks=networks, index=index, mode=mode)
        for index, network in enumerate(networks())
        for mode in network.modes
    ]


class CapturingProcess:
    """A process that captures, started anew where it died and after so many captures; None for any number."""

    def __init__(self, captures: int | None = None) -> None:
        self._actors, self._captures = ProcessActors(), captures
        self._actor: ProcessActor | None = None
        self._done = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._actors.__exit__(kind, error, at)

    def call(self, function: Callable[..., Captured], *arguments: Any) -> Captured | None:
        """What the function gives there; None where the process dies, most likely for want of memory."""
        if self._actor is None or self._done == self._captures:
            if self._actor is not None:
                self._actors.end(self._actor)
            self._actor, self._done = self._actors.make(_Caller), 0
        self._done += 1
        try:
            found: Captured = self._actors.get(self._actor.ask("call", function, *arguments))
        except ActorLostError:
            self._actors.end(self._actor)
            self._actor = None
            return None
        return found


class _Caller:
    """What is in the process."""

    def call(self, function: Callable[..., Captured], *arguments: Any) -> Captured:
        return function(*arguments)


def capture_all(tasks: Sequence[Task], processes: int) -> Iterator[Captured]:
    """The captures in the order of the tasks, as they come; with one process in this one. A network whose process dies,
    perhaps for what ran beside it, is tried once more alone, fails if its process dies again, and the rest goes on."""
    if processes == 1:
        yield from map(capture, tasks)
        return
    with ExitStack() as stack, ThreadPoolExecutor(processes) as threads:
        idle: SimpleQueue[CapturingProcess] = SimpleQueue()
        for _ in range(processes):
            idle.put(stack.enter_context(CapturingProcess()))

        def capture_there(task: Task, number: int = 1) -> Captured | None:
            """number: of the processes that are taken, so that as many fewer run beside it."""
            taken: list[CapturingProcess] = []
            try:
                while len(taken) < number:
                    taken.append(idle.get())
                return taken[0].call(capture, task)
            finally:
                for process in taken:
                    idle.put(process)

        for task, captured in zip(tasks, threads.map(capture_there, tasks), strict=True):
            yield captured or capture_there(task, processes) or _died(task)


def _died(task: Task) -> Captured:
    network = task.networks()[task.index]
    failure = _failure(network, task.mode, DIED)
    return Captured(name=f"{network.name}-{task.mode}", graph=None, failure=failure, seconds=0.0)


def _failure(network: Network, mode: Mode, reason: str) -> str:
    return f"network '{network.name}' cannot be captured for {mode}: {reason}"


def capture(task: Task) -> Captured:
    """Captures one network in one mode. Whatever its author's code or PyTorch raises becomes the failure."""
    began = time.perf_counter()
    network = task.networks()[task.index]
    graph, failure = None, ""
    try:
        graph = capture_network(network, task.mode)
    except Exception as error:
        failure = _failure(network, task.mode, shown((str(error).strip() or type(error).__name__).splitlines()[0], 200))
    # A traced module and its graph refer to each other; without this a process grows with every capture.
    gc.collect()
    return Captured(
        name=f"{network.name}-{task.mode}", graph=graph, failure=failure, seconds=time.perf_counter() - began
    )
