"""Captures many networks, in other processes if asked to, and hands them out in the order of the catalogue."""

from __future__ import annotations

import gc
import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass

from placewright.graph import Graph
from placewright.lab.datasets.zoo.capture import capture_network
from placewright.lab.datasets.zoo.network import Mode, Network
from placewright.lab.processes import start_resource_tracker
from placewright.support.errors import shown

#: A function at the top of a module, by whose name another process finds the networks, which may hold lambdas.
Networks = Callable[[], Sequence[Network]]


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


def capture_all(tasks: Sequence[Task], processes: int) -> Iterator[Captured]:
    """The captures in the order of the tasks, as they come; with one process in this one.

    Other processes start afresh, because PyTorch does not survive a fork in the middle of its threads. When one dies,
    most likely for want of memory, whose fault that was is not known: the network waited for is tried alone, fails if
    its process dies again, and the rest goes on in new ones.
    """
    if processes == 1:
        yield from map(capture, tasks)
        return
    done = 0
    while done < len(tasks):
        for captured in _until_one_dies(tasks[done:], processes):
            done += 1
            yield captured
        if done < len(tasks):
            yield next(_until_one_dies(tasks[done : done + 1], 1), None) or _died(tasks[done])
            done += 1


def _until_one_dies(tasks: Sequence[Task], processes: int) -> Iterator[Captured]:
    start_resource_tracker()
    with ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("spawn")) as pool:
        try:
            yield from pool.map(capture, tasks)
        except BrokenProcessPool:
            return


def _died(task: Task) -> Captured:
    network = task.networks()[task.index]
    failure = _failure(network, task.mode, "its process died, perhaps for want of memory")
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
