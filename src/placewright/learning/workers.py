"""Workers that roll out and differentiate; the training gives them weights and takes gradients."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar, final

import numpy as np
import torch
from numpy.typing import NDArray

from placewright.datasets.headroom import PAPER_MACHINE
from placewright.datasets.problem_set import PAPER_CONTROL, ProblemSet
from placewright.importers.graph_set import SUFFIX, read_graph_set
from placewright.learning.regal.instances import Instances
from placewright.learning.regal.learner import Learner, Lesson
from placewright.learning.regal.trainings import TrainingConfiguration
from placewright.machines import load_machine
from placewright.support.errors import InputError, PlacewrightError, shown
from placewright.support.processes import end_with_parent

#: By all workers together; some 1,100 bytes each.
OPS_HELD = 4_000_000
DEATH = "a worker of the training has died; its last checkpoint goes on from there"
Weights = NDArray[np.float32]
Job = TypeVar("Job")
Answer = TypeVar("Answer")


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """graph: number among those to learn from. is_taught: by imitation, otherwise by rewards. seeds: of its samples."""

    graph: int
    is_taught: bool
    seeds: tuple[int, ...]


def suite_of(folder: Path, split: str, configuration: TrainingConfiguration) -> ProblemSet:
    """The graphs of a split, "train" or "valid", on the paper's machine. Raises InputError when there are none."""
    path = folder / f"{split}{SUFFIX}"
    if not os.path.exists(path):  # which, unlike Path.exists, takes any name
        raise InputError(
            f"'{shown(folder)}' has no '{path.name}' to {'learn from' if split == 'train' else 'validate on'}; "
            "`placewright dataset pack` splits your own graphs into such a folder"
        )
    graphs = read_graph_set(path)
    if len(graphs) == 0:
        raise InputError(f"'{shown(path)}' holds no graph")
    return ProblemSet(
        name=split,
        graphs=graphs,
        machine=load_machine(PAPER_MACHINE),
        objective=configuration.policy.objective,
        control=PAPER_CONTROL,
        copies=configuration.copies if split == "train" else 0,
    )


def suites_of(folder: Path, configuration: TrainingConfiguration) -> dict[str, ProblemSet]:
    """Those to learn from and to validate on, by split. Raises InputError where `suite_of` does."""
    return {split: suite_of(folder, split, configuration) for split in ("train", "valid")}


def graphs_of(suite: ProblemSet, configuration: TrainingConfiguration) -> list[int]:
    """Numbers of a suite's graphs, copies included, that are not too large. Raises InputError when all are."""
    if (most := configuration.most_ops) is None:
        return list(range(len(suite.labels)))
    small = [index for index in range(len(suite.graphs)) if len(suite.graphs[index].ops) <= most]
    if not small:
        raise InputError(f"'{shown(suite.graphs.name)}' has no graph of at most {most:,} ops")
    each = 1 + suite.copies
    return [index * each + copy for index in small for copy in range(each)]


class Workers(ABC):
    """So many of them. What they answer depends neither on how many they are nor on where they are.

    A context: at its end none is left. Both questions raise PlacewrightError when a worker has died, and InputError
    when a graph cannot be read. weights: float32, all in one row.
    """

    def __enter__(self) -> Self:
        return self

    @abstractmethod
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None: ...

    @final
    def lessons(self, weights: Weights, assignments: Sequence[Assignment]) -> list[Lesson]:
        return self._all(_lesson, weights, assignments)

    @final
    def improvements(self, weights: Weights, graphs: Sequence[int]) -> list[float]:
        """Percent by which the policy is better than uniform BRKGA on each of the graphs to validate on."""
        return self._all(_improvement, weights, graphs)

    @abstractmethod
    def _all(self, work: Callable[[Weights, Job], Answer], weights: Weights, jobs: Sequence[Job]) -> list[Answer]:
        """What `work` makes of the weights and each of the jobs, in their order."""


class ProcessWorkers(Workers):
    """Processes of this machine; each reads the graphs from the folder."""

    def __init__(self, folder: Path, configuration: TrainingConfiguration, processes: int) -> None:
        context = multiprocessing.get_context("spawn")  # torch does not survive a fork amid its threads
        self._pool = ProcessPoolExecutor(processes, context, _start, (folder, configuration, OPS_HELD // processes))

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._pool.shutdown(cancel_futures=True)

    def _all(self, work: Callable[[Weights, Job], Answer], weights: Weights, jobs: Sequence[Job]) -> list[Answer]:
        try:
            return list(self._pool.map(work, repeat(weights), jobs))
        except BrokenProcessPool as error:
            raise PlacewrightError(DEATH) from error


@dataclass(frozen=True, kw_only=True, eq=False)
class _Room:
    """What a worker holds."""

    learner: Learner
    train: Instances
    valid: Instances


_room: _Room


def _start(folder: Path, configuration: TrainingConfiguration, most_ops: int) -> None:
    """Once in each process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears Ctrl-C too, and ends its workers
    threading.Thread(target=end_with_parent, daemon=True).start()
    furnish(suites_of(folder, configuration), configuration, most_ops)


def furnish(suites: Mapping[str, ProblemSet], configuration: TrainingConfiguration, most_ops: int) -> None:
    """Gives the worker that this process is what it holds. suites: as `suites_of` has them. most_ops: it may hold."""
    global _room
    torch.set_num_threads(1)
    policy, seeds, rounds = configuration.policy, configuration.reference_seeds, configuration.teacher_rounds
    instances = {
        split: Instances(suites[split], policy, evaluations, seeds, rounds, most_ops)
        for split, evaluations in (
            ("train", configuration.evaluations),
            ("valid", configuration.validation_evaluations),
        )
    }
    _room = _Room(learner=Learner(configuration, seed=0), **instances)


def _lesson(weights: Weights, assignment: Assignment) -> Lesson:
    _room.learner.weights = weights
    instance = _room.train[assignment.graph]
    return (
        _room.learner.imitation(instance) if assignment.is_taught else _room.learner.lesson(instance, assignment.seeds)
    )


def _improvement(weights: Weights, graph: int) -> float:
    _room.learner.weights = weights
    return 100 * (1 + _room.learner.reward(_room.valid[graph], seed=graph))
