"""Workers that roll out and differentiate; the training sends them weights and receives gradients."""

from __future__ import annotations

import os
import pickle
import sys
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from placewright.importers.graph_set import SUFFIX, read_graph_set
from placewright.lab.datasets.problem_set import ProblemSet
from placewright.lab.learning.learner import Learner
from placewright.lab.learning.protocols import DemonstratingEnvironment, Environment, GradientEstimate, Samples
from placewright.lab.learning.training import Split, TrainingConfiguration
from placewright.lab.processes import ActorLostError, ProcessActors, in_order
from placewright.machines import load_machine
from placewright.problem import Problem
from placewright.support.errors import InputError, PlacewrightError, shown
from placewright.support.modules import PLUGIN_PREFIX, load_file


class EnvironmentPool:
    """Environments by number of the problem, each made once and kept while there is room. Not thread-safe.

    make: from a problem and its number. max_ops: the most recently used are kept, up to that many ops in all.
    """

    def __init__(self, problems: ProblemSet, make: Callable[[Problem, int], Environment], max_ops: int) -> None:
        self._problems, self._make, self._max_ops = problems, make, max_ops
        self._kept: OrderedDict[int, Environment] = OrderedDict()
        self._ops_kept = 0

    def __getitem__(self, index: int) -> Environment:
        if index in self._kept:
            self._kept.move_to_end(index)
            return self._kept[index]
        environment = self._make(self._problems.problem(self._problems.graph(index)), index)
        self._kept[index] = environment
        self._ops_kept += environment.problem.core.num_ops
        while self._ops_kept > self._max_ops and len(self._kept) > 1:
            _, oldest = self._kept.popitem(last=False)
            self._ops_kept -= oldest.problem.core.num_ops
        return environment


#: Ops kept by all workers together; some 1,100 bytes each.
MAX_OPS_KEPT = 4_000_000
Weights = NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class RolloutTask:
    """A task of a worker. graph: number among those to learn from. imitates: learns from an expert, otherwise from
    rewards. seeds: of its samples. samples: those of an earlier pass, to learn from again."""

    graph: int
    imitates: bool
    seeds: tuple[int, ...]
    samples: Samples | None = None


def problem_set_of(folder: Path, split: Split, configuration: TrainingConfiguration) -> ProblemSet:
    """Return the graphs of a split on the machine of the training. Raises InputError when there are none."""
    path = folder / f"{split}{SUFFIX}"
    if not os.path.exists(path):  # unlike Path.exists, takes any name
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
    """Return the problem sets to learn from and to validate on, by split. Raises InputError where `problem_set_of`
    does."""
    splits: tuple[Split, ...] = ("train", "valid")
    return {split: problem_set_of(folder, split, configuration) for split in splits}


def graphs_of(problems: ProblemSet, configuration: TrainingConfiguration) -> list[int]:
    """Return the numbers of a set's problems, including copies, that are not too large. Raises InputError when all
    are."""
    if (max_ops := configuration.max_ops) is None:
        return list(range(len(problems.labels)))
    small = [index for index in range(len(problems.graphs)) if len(problems.graphs[index].ops) <= max_ops]
    if not small:
        raise InputError(f"'{shown(problems.graphs.name)}' has no graph of at most {max_ops:,} ops")
    each = 1 + problems.copies
    return [index * each + copy for index in small for copy in range(each)]


@dataclass(frozen=True, slots=True, kw_only=True)
class SentConfiguration:
    """A training's settings as sent to another process, where the plugin that defines them may not be loaded yet.

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


class Workers:
    """Processes that roll out and differentiate. Their answers do not depend on the number of processes.

    Both methods raise PlacewrightError when a worker has died, and InputError when a graph cannot be read. weights:
    float32, all in one vector.
    """

    def __init__(
        self,
        actors: ProcessActors,
        folder: Path,
        configuration: TrainingConfiguration,
        number: int,
    ) -> None:
        self._actors = actors
        arguments = (folder, SentConfiguration.of(configuration), MAX_OPS_KEPT // number)
        self.workers = [actors.make(RolloutWorker, *arguments) for _ in range(number)]

    def gradients(self, weights: Weights, tasks: Sequence[RolloutTask]) -> list[GradientEstimate]:
        return self._all("gradient", weights, tasks)

    def improvements(self, weights: Weights, graphs: Sequence[int]) -> list[float]:
        """Return by how many percent the policy is better than the reference on each of the graphs to validate on."""
        return self._all("improvement", weights, graphs)

    def _all(self, question: str, weights: Weights, jobs: Sequence[Any]) -> list[Any]:
        try:
            return list(in_order(self._actors, self.workers, question, weights, jobs))
        except ActorLostError as error:
            raise PlacewrightError(
                "a worker of the training has died; its last checkpoint goes on from there"
            ) from error


class RolloutWorker:
    """The environments of a training, its networks and algorithm. max_ops: as of EnvironmentPool."""

    def __init__(self, folder: Path, sent: SentConfiguration, max_ops: int) -> None:
        torch.set_num_threads(1)
        configuration = sent.received()
        problem_sets = problem_sets_of(folder, configuration)

        def pool(split: Split) -> EnvironmentPool:
            return EnvironmentPool(problem_sets[split], partial(configuration.environment, split=split), max_ops)

        self._learner, self._train, self._valid = Learner(configuration, seed=0), pool("train"), pool("valid")

    def gradient(self, weights: Weights, task: RolloutTask) -> GradientEstimate:
        environment = self._train[task.graph]
        self._take(weights)
        if task.imitates:
            return self._learner.imitation_gradient(cast(DemonstratingEnvironment, environment))
        return self._learner.policy_gradient(environment, task.seeds, task.samples)

    def improvement(self, weights: Weights, graph: int) -> float:
        self._take(weights)
        return 100 * (1 + self._learner.reward(self._valid[graph], seed=graph))

    def _take(self, weights: Weights) -> None:
        self._learner.weights = weights
