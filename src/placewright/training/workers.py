"""Processes that roll out and differentiate; the training gives them weights and takes gradients."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from placewright.bench.suite import PAPER_CONTROL, Suite
from placewright.bench.work import end_with_parent
from placewright.datasets.graph_set import SUFFIX, read_graph_set
from placewright.datasets.headroom import PAPER_MACHINE
from placewright.errors import InputError, PlacewrightError, shown
from placewright.machines import load_machine
from placewright.training.configuration import TrainingConfiguration
from placewright.training.instances import Instances
from placewright.training.learner import Learner, Lesson

#: By all processes together; some 1,100 bytes each.
_OPS_HELD = 4_000_000
_Job = TypeVar("_Job")
_Answer = TypeVar("_Answer")


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """graph: number among those to learn from. is_taught: by imitation, otherwise by rewards. seeds: of its samples."""

    graph: int
    is_taught: bool
    seeds: tuple[int, ...]


def suite_of(folder: Path, split: str, configuration: TrainingConfiguration) -> Suite:
    """The graphs of a split, "train" or "valid", on the paper's machine. Raises InputError when there are none."""
    path = folder / f"{split}{SUFFIX}"
    if not os.path.exists(path):  # which, unlike Path.exists, takes any name
        raise InputError(
            f"'{shown(folder)}' has no '{path.name}' to {'learn from' if split == 'train' else 'validate on'}"
        )
    graphs = read_graph_set(path)
    if len(graphs) == 0:
        raise InputError(f"'{shown(path)}' holds no graph")
    return Suite(
        name=split,
        graphs=graphs,
        machine=load_machine(PAPER_MACHINE),
        objective=configuration.policy.objective,
        control=PAPER_CONTROL,
        copies=configuration.copies if split == "train" else 0,
    )


def graphs_of(suite: Suite, configuration: TrainingConfiguration) -> list[int]:
    """Numbers of a suite's graphs, copies included, that are not too large. Raises InputError when all are."""
    if (most := configuration.most_ops) is None:
        return list(range(len(suite.labels)))
    small = [index for index in range(len(suite.graphs)) if len(suite.graphs[index].ops) <= most]
    if not small:
        raise InputError(f"'{shown(suite.graphs.name)}' has no graph of at most {most:,} ops")
    each = 1 + suite.copies
    return [index * each + copy for index in small for copy in range(each)]


class Workers:
    """A pool of processes. What they answer does not depend on how many they are."""

    def __init__(self, folder: Path, configuration: TrainingConfiguration, processes: int) -> None:
        context = multiprocessing.get_context("spawn")  # torch does not survive a fork amid its threads
        self._pool = ProcessPoolExecutor(processes, context, _start, (folder, configuration, _OPS_HELD // processes))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._pool.shutdown(cancel_futures=True)

    def lessons(self, weights: NDArray[np.float32], assignments: Sequence[Assignment]) -> list[Lesson]:
        return self._all(_lesson, [(weights, assignment) for assignment in assignments])

    def improvements(self, weights: NDArray[np.float32], graphs: Iterable[int]) -> list[float]:
        """Percent by which the policy is better than uniform BRKGA on each of the graphs to validate on."""
        return self._all(_improvement, [(weights, graph) for graph in graphs])

    def _all(self, work: Callable[[_Job], _Answer], jobs: Sequence[_Job]) -> list[_Answer]:
        try:
            return list(self._pool.map(work, jobs))
        except BrokenProcessPool as error:
            raise PlacewrightError(
                "a worker of the training has died; its last checkpoint goes on from there"
            ) from error


@dataclass(frozen=True, kw_only=True, eq=False)
class _Room:
    """What a worker process holds."""

    learner: Learner
    train: Instances
    valid: Instances


_room: _Room


def _start(folder: Path, configuration: TrainingConfiguration, most_ops: int) -> None:
    """Once in each worker."""
    global _room
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears Ctrl-C too, and ends its workers
    threading.Thread(target=end_with_parent, daemon=True).start()
    torch.set_num_threads(1)
    policy, seeds = configuration.policy, configuration.reference_seeds
    instances = {
        split: Instances(suite_of(folder, split, configuration), policy, evaluations, seeds, most_ops)
        for split, evaluations in (
            ("train", configuration.evaluations),
            ("valid", configuration.validation_evaluations),
        )
    }
    _room = _Room(learner=Learner(configuration, seed=0), **instances)


def _lesson(job: tuple[NDArray[np.float32], Assignment]) -> Lesson:
    weights, assignment = job
    _room.learner.weights = weights
    instance = _room.train[assignment.graph]
    return (
        _room.learner.imitation(instance) if assignment.is_taught else _room.learner.lesson(instance, assignment.seeds)
    )


def _improvement(job: tuple[NDArray[np.float32], int]) -> float:
    weights, graph = job
    _room.learner.weights = weights
    return 100 * (1 + _room.learner.reward(_room.valid[graph], seed=graph))
