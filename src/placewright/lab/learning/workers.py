"""Workers that roll out and differentiate; the training gives them weights and takes gradients."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar, cast, final

import numpy as np
import torch
from numpy.typing import NDArray

from placewright.importers.graph_set import SUFFIX, read_graph_set
from placewright.lab.datasets.problem_set import ProblemSet
from placewright.lab.learning.environments.pool import EnvironmentPool
from placewright.lab.learning.learner import Learner
from placewright.lab.learning.protocols import DemonstratingEnvironment, GradientEstimate, Samples
from placewright.lab.learning.training import Split, TrainingConfiguration
from placewright.lab.processes import end_with_parent, start_resource_tracker
from placewright.machines import load_machine
from placewright.support.errors import InputError, PlacewrightError, shown
from placewright.support.modules import PLUGIN_PREFIX, load_file

#: By all workers together; some 1,100 bytes each.
MAX_OPS_KEPT = 4_000_000
DEATH = "a worker of the training has died; its last checkpoint goes on from there"
Weights = NDArray[np.float32]
Job = TypeVar("Job")
Answer = TypeVar("Answer")


@dataclass(frozen=True, kw_only=True)
class RolloutTask:
    """graph: number among those to learn from. imitates: an expert; otherwise it learns from rewards. seeds: of its
    samples. samples: those of an earlier pass, to learn from again."""

    graph: int
    imitates: bool
    seeds: tuple[int, ...]
    samples: Samples | None = None


def problem_set_of(folder: Path, split: Split, configuration: TrainingConfiguration) -> ProblemSet:
    """The graphs of a split on the machine of the training. Raises InputError when there are none."""
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
        machine=load_machine(configuration.machine),
        objective=configuration.objective,
        control=configuration.control,
        copies=configuration.augmentations if split == "train" else 0,
    )


def problem_sets_of(folder: Path, configuration: TrainingConfiguration) -> dict[Split, ProblemSet]:
    """Those to learn from and to validate on, by split. Raises InputError where `problem_set_of` does."""
    splits: tuple[Split, ...] = ("train", "valid")
    return {split: problem_set_of(folder, split, configuration) for split in splits}


def graphs_of(problems: ProblemSet, configuration: TrainingConfiguration) -> list[int]:
    """Numbers of a set's problems, copies included, that are not too large. Raises InputError when all are."""
    if (max_ops := configuration.max_ops) is None:
        return list(range(len(problems.labels)))
    small = [index for index in range(len(problems.graphs)) if len(problems.graphs[index].ops) <= max_ops]
    if not small:
        raise InputError(f"'{shown(problems.graphs.name)}' has no graph of at most {max_ops:,} ops")
    each = 1 + problems.copies
    return [index * each + copy for index in small for copy in range(each)]


@dataclass(frozen=True, slots=True, kw_only=True)
class SentConfiguration:
    """A training's settings on their way to another process, where the plugin that defines them may not be loaded yet.

    module, file: where their class is defined. content: pickled.
    """

    module: str
    file: str | None
    content: bytes

    @staticmethod
    def of(configuration: TrainingConfiguration) -> SentConfiguration:
        module = type(configuration).__module__
        file = getattr(sys.modules[module], "__file__", None)
        return SentConfiguration(module=module, file=file, content=pickle.dumps(configuration))

    def received(self) -> TrainingConfiguration:
        if self.module.startswith(PLUGIN_PREFIX) and self.module not in sys.modules and self.file is not None:
            load_file(Path(self.file), self.module)
        configuration: TrainingConfiguration = pickle.loads(self.content)  # from the process that started this one
        return configuration


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
    def gradients(self, weights: Weights, tasks: Sequence[RolloutTask]) -> list[GradientEstimate]:
        return self._all(_gradient, weights, tasks)

    @final
    def improvements(self, weights: Weights, graphs: Sequence[int]) -> list[float]:
        """Percent by which the policy is better than the reference on each of the graphs to validate on."""
        return self._all(_improvement, weights, graphs)

    @abstractmethod
    def _all(self, work: Callable[[Weights, Job], Answer], weights: Weights, jobs: Sequence[Job]) -> list[Answer]:
        """What `work` makes of the weights and each of the jobs, in their order."""


class ProcessWorkers(Workers):
    """Processes of this machine; each reads the graphs from the folder."""

    def __init__(self, folder: Path, configuration: TrainingConfiguration, processes: int) -> None:
        start_resource_tracker()
        context = multiprocessing.get_context("spawn")  # torch does not survive a fork amid its threads
        self._pool = ProcessPoolExecutor(
            processes, context, _start, (folder, SentConfiguration.of(configuration), MAX_OPS_KEPT // processes)
        )

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._pool.shutdown(cancel_futures=True)

    def _all(self, work: Callable[[Weights, Job], Answer], weights: Weights, jobs: Sequence[Job]) -> list[Answer]:
        try:
            return list(self._pool.map(work, repeat(weights), jobs))
        except BrokenProcessPool as error:
            raise PlacewrightError(DEATH) from error


@dataclass(frozen=True, kw_only=True, eq=False)
class _WorkerState:
    """What a worker keeps between two tasks."""

    learner: Learner
    train: EnvironmentPool
    valid: EnvironmentPool


_state: _WorkerState


def _start(folder: Path, sent: SentConfiguration, max_ops: int) -> None:
    """Once in each process."""
    configuration = sent.received()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent gets Ctrl-C too, and ends its workers
    end_with_parent()
    init_worker(problem_sets_of(folder, configuration), configuration, max_ops)


def init_worker(problem_sets: Mapping[Split, ProblemSet], configuration: TrainingConfiguration, max_ops: int) -> None:
    """Makes this process a worker. problem_sets: as `problem_sets_of` has them. max_ops: as of EnvironmentPool."""
    global _state
    torch.set_num_threads(1)

    def pool(split: Split) -> EnvironmentPool:
        make = partial(configuration.environment, split=split)
        return EnvironmentPool(problem_sets[split], make, max_ops)

    _state = _WorkerState(learner=Learner(configuration, seed=0), train=pool("train"), valid=pool("valid"))


def _gradient(weights: Weights, task: RolloutTask) -> GradientEstimate:
    learner, environment = _state.learner, _state.train[task.graph]
    learner.weights = weights
    if task.imitates:
        return learner.imitation_gradient(cast(DemonstratingEnvironment, environment))
    return learner.policy_gradient(environment, task.seeds, task.samples)


def _improvement(weights: Weights, graph: int) -> float:
    _state.learner.weights = weights
    return 100 * (1 + _state.learner.reward(_state.valid[graph], seed=graph))
