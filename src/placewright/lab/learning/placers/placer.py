"""The common part of all placers: they propose placements of units, receive their costs, and the best one is kept;
those with a network draw and learn in one loop."""

from __future__ import annotations

import importlib.util
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

import placewright._core as _core
from placewright.lab.learning.environments.first_come import (
    FirstComeEnvironment,
    MeasuredEnvironment,
    Noise,
    TimeOf,
    Trials,
)
from placewright.lab.learning.placers.colocation import COLOCRL_RULES, Units, units_of
from placewright.problem import Problem
from placewright.problem.objective import StopReason
from placewright.search.run.budget import UNLIMITED
from placewright.search.run.result import Result, Solution
from placewright.search.run.search_run import SearchRun, settings_of
from placewright.support.errors import InputError, MissingExtraError
from placewright.support.torch_threads import torch_threads

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from placewright.lab.learning.placers.placement_policy import PlacementPolicy

#: Evaluations over which noise falls, where the budget has more.
PLANNED = 2400
#: Share of the initial noise that is left at the end: without any, a learner would draw one placement for ever.
LAST_NOISE = 0.1
#: Yields devices, [count, num units], and receives their costs.
Proposals: TypeAlias = Generator[NDArray[np.integer], Trials, None]
#: Learns from actions, [count, decisions], and their costs.
Learn: TypeAlias = "Callable[[Tensor, Trials], None]"


@dataclass(frozen=True, kw_only=True, eq=False)
class Task:
    """A learner's task: the problem, its units, the seed of all random draws, and the most placements that it may
    try."""

    problem: Problem
    units: Units
    seed: int
    evaluations: int = UNLIMITED


@dataclass(frozen=True, kw_only=True)
class LearnedPlacer(ABC):
    """A learner on one graph, as a method. First everything is tried on each device alone: costs are divided by the
    objective of the best that runs, which is also a candidate.

    colocation: the rules that make units, by name (colocation.py). noise, failures: of the costs that the learner
    receives; the best placement is chosen without them. time_of: measures the step time of a solution in ns; None for
    the simulation.
    """

    name: str
    colocation: tuple[str, ...] = COLOCRL_RULES
    noise: float = 0.0
    failures: float = 0.0
    time_of: TimeOf | None = None

    @abstractmethod
    def proposals(self, task: Task) -> Proposals:
        """Yield placements and learn from their costs; end when nothing is left to learn."""

    @property
    def settings(self) -> dict[str, Any]:
        """The settings as JSON values."""
        return settings_of(self)

    def solve(self, problem: Problem, run: SearchRun) -> Result:
        """Solve as `Method.solve` does."""
        noise = Noise(deviation=self.noise, failures=self.failures)
        make = FirstComeEnvironment if self.time_of is None else partial(MeasuredEnvironment, self.time_of)
        environment = make(problem, threads=run.threads, noise=noise, seed=run.seed)
        trying = Trying(self.name, environment, run)
        alone = np.stack([_core.all_on(problem.core, d) for d in range(problem.machine.num_devices)])
        reason = run.reason_to_stop()
        first = trying.measure(alone if reason is None else alone[:1], "one device")
        environment.reference = float(max(1, first.objective[first.best()]))
        reason = self._learn(problem, trying, run)
        settings = replace(self, time_of=None).settings  # which is no value to be written down
        settings["environment"] = "simulated" if environment.is_simulated else "measured"
        settings["mean_drawn_costs"] = trying.mean_drawn_costs
        solution = None if environment.is_simulated else trying.solution  # not the one that simulates best
        return run.result(problem, self.name, solution, stopped_because=reason, configuration=settings)

    def _learn(self, problem: Problem, trying: Trying, run: SearchRun) -> StopReason:
        """Learn until the budget is spent or nothing is left to learn; return why it ended."""
        if (reason := trying.reason_to_stop()) is not None:
            return reason
        units = units_of(problem, self.colocation)
        if (units.allowed.sum(1) == 1).all():
            trying.measure(units.placements(units.allowed.argmax(1)[None]), "the only placement")
            return "complete"
        return self.learn(Task(problem=problem, units=units, seed=run.seed, evaluations=run.evaluations_left), trying)

    def learn(self, task: Task, trying: Trying) -> StopReason:
        """Propose and receive costs, until the budget is spent or nothing is left to learn; return why it ended."""
        with closing(self.proposals(task)) as learner:
            devices = next(learner)
            while True:
                trials = trying.measure(task.units.placements(devices))
                if (reason := trying.reason_to_stop()) is not None:
                    return reason
                try:
                    devices = learner.send(trials)
                except StopIteration:
                    return "complete"


@dataclass(frozen=True, kw_only=True)
class NetworkPlacer(LearnedPlacer):
    """A placer whose network draws placements and learns from their costs, step after step.

    samples: placements of one step. learning_rate, max_grad_norm: of Adam, and the norm that larger gradients are
    clipped to. shared_noise: deviation of noise on the draws, which decreases over the run; learning uses the
    likelihood without noise; 0 draws each unit independently.
    """

    samples: int = 8
    learning_rate: float = 1e-3
    max_grad_norm: float = 1.0
    shared_noise: float = 3.0

    @abstractmethod
    def policy_of(self, task: Task) -> PlacementPolicy:
        """Return the network on the task's graph, with new weights."""

    @abstractmethod
    def learner(self, policy: PlacementPolicy) -> Learn:
        """Return the algorithm in its initial state."""

    @property
    def drawn(self) -> int:
        """The number of placements that a step draws."""
        return self.samples

    def noise_after(self, tried: int, task: Task) -> float:
        """Return the deviation of shared noise after that many placements."""
        return falling_noise(self.shared_noise, tried, task.evaluations)

    def draw(self, policy: Any, step: int, generator: torch.Generator) -> Tensor:
        """Draw the actions of a step."""
        actions: Tensor = policy.sample(self.samples, generator)
        return actions

    def tried_besides(self, policy: Any, step: int) -> Iterable[Tensor]:
        """Return actions that are tried before a step and not learned from."""
        return ()

    def proposals(self, task: Task) -> Proposals:
        with torch_on_one_thread(self.name):
            from placewright.lab.learning.placers.placement_policy import seeded

            policy, generator = seeded(lambda: self.policy_of(task), task.seed)
            learn = self.learner(policy)
            for step in count():
                for actions in self.tried_besides(policy, step):
                    yield policy.devices(actions)
                policy.shared_noise = self.noise_after(step * self.drawn, task)
                actions = self.draw(policy, step, generator)
                learn(actions, (yield policy.devices(actions)))


@contextmanager
def torch_on_one_thread(name: str) -> Iterator[None]:
    """Run PyTorch on one thread while the solver of that name learns: sums are made in one order, whatever the cores.
    Raises MissingExtraError without PyTorch."""
    if importlib.util.find_spec("torch") is None:
        raise MissingExtraError("PyTorch", "torch", f"solver '{name}'")
    with torch_threads(1):
        yield


def check_sizes(samples: int, hidden: int) -> None:
    """Check the sizes of a sequence-to-sequence network and its batches. Raises InputError."""
    if samples < 1:
        raise InputError(f"samples is {samples}; it must be at least 1")
    if hidden < 2 or hidden % 2:
        raise InputError(f"hidden is {hidden}; it must be even, since the encoder reads in both directions")


def falling_noise(at_first: float, tried: int, evaluations: int = UNLIMITED) -> float:
    """Return the deviation of shared noise after that many placements: it falls linearly over the evaluations of a run,
    since it hides what the learner has learned."""
    return at_first * max(LAST_NOISE, 1 - tried / min(evaluations, PLANNED))


def check_noise(shared_noise: float) -> None:
    """Raise InputError where it is not a valid deviation of shared noise."""
    if not 0 <= shared_noise < math.inf:
        raise InputError(f"shared_noise is {shared_noise}; it must be a finite number of at least 0")


class Trying:
    """Placements measured within a run's budget; the best is offered to the run.

    environment: measures them, and holds the reference of costs. solution: the best one's.
    """

    solution: Solution

    def __init__(self, name: str, environment: FirstComeEnvironment, run: SearchRun) -> None:
        self._name, self.environment, self._run = name, environment, run
        self._best: tuple[int, int, int] | None = None
        self._drawn = list[float]()

    def measure(self, placements: NDArray[np.int32], found_by: str = "") -> Trials:
        """Measure as many placements as the budget has left, at least one. Those without `found_by` were drawn by a
        learner."""
        placements = placements[: max(1, self._run.evaluations_left)]
        trials = self.environment.measure(placements)
        if not found_by:
            self._drawn.append(float(trials.cost.mean()))
        best = trials.best()
        if self._best is None or trials.fitness(best) < self._best:
            self._best = trials.fitness(best)
            label = f"{self._name}: {found_by}" if found_by else self._name
            self.solution = self.environment.solution(placements[best])
            self._run.offer(
                self.environment.problem, self.solution, self._name, found_by=label, evaluations=len(placements)
            )
        elif not self.environment.is_simulated:
            self._run.spend(len(placements))
        else:
            self._run.report(self._name, self._best[1], self._best[0], evaluations=len(placements))
        return trials

    @property
    def mean_drawn_costs(self) -> list[float]:
        """The mean cost of the learner's draws for each tenth of its steps, in order: a learner that learns lowers
        them."""
        parts = np.array_split(self._drawn, min(10, len(self._drawn))) if self._drawn else []
        return [round(float(part.mean()), 4) for part in parts]

    def reason_to_stop(self) -> StopReason | None:
        assert self._best is not None
        if self.environment.is_simulated and self._run.is_optimal(self._best[1], self._best[0]):
            return "optimal"
        return self._run.reason_to_stop()
