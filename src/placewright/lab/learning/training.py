"""The settings that all trainings share: the policy, the graphs, and the steps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from placewright.lab.datasets.problem_set import DEFAULT_CONTROL, PAPER_MACHINE
from placewright.lab.learning.protocols import Algorithm, Environment, Network, ValueFunction
from placewright.methods.policies import Policy, Weights
from placewright.problem import Problem
from placewright.problem.objective import ControlMode, Objective
from placewright.support.errors import InputError

if TYPE_CHECKING:
    from torch import nn

Split = Literal["train", "valid"]


@dataclass(frozen=True, kw_only=True)
class TrainingConfiguration(ABC):
    """A training; each family of policies derives its own class, which makes its networks and environments.

    Parameters
    ----------
    policy
        Configuration of the policy that is trained, a frozen dataclass of JSON values.
    machine, control
        The machine of the problems, and their reading of control dependencies.
    augmentations
        Noisy copies of each graph that may be drawn (REGAL, A.1.2).
    max_ops
        Most ops of a graph to learn from or to validate on; None for no limit.
    steps, imitation_steps
        Gradient steps, and the number of first steps that imitate an expert.
    batch, samples
        Graphs in each step, and actions drawn for each graph. Each of several is compared with the mean of the others,
        a single one with the value function's estimate.
    learning_rate, last_learning_rate
        Adam's, falling linearly over the steps from the first to the last; None keeps it constant.
    imitation_learning_rate
        The initial rate where steps imitate; it falls linearly over them to learning_rate.
    max_grad_norm
        Larger gradients are clipped to this norm.
    value_weight
        Weight of the value function's squared error.
    checkpoint_interval
        Steps from one checkpoint, and from one line of the records, to the next.
    validation_interval, validation_graphs
        Steps from one validation to the next, and the number of graphs in each.

    Raises
    ------
    InputError
        Where a setting is outside its range; the message names it.
    """

    policy: Any
    machine: str = PAPER_MACHINE
    control: ControlMode = DEFAULT_CONTROL
    augmentations: int = 0
    max_ops: int | None = None
    steps: int = 100_000
    imitation_steps: int = 0
    batch: int = 4
    samples: int = 1
    learning_rate: float = 1e-4
    last_learning_rate: float | None = None
    imitation_learning_rate: float = 2e-3
    max_grad_norm: float = 10.0
    value_weight: float = 1e-4
    checkpoint_interval: int = 100
    validation_interval: int = 1000
    validation_graphs: int = 100

    def __post_init__(self) -> None:
        for name in ("steps", "batch", "samples", "checkpoint_interval", "validation_interval", "validation_graphs"):
            if (value := getattr(self, name)) < 1:
                raise InputError(f"{name} of a training is {value}; it must be at least 1")
        if not 0 <= self.imitation_steps <= self.steps:
            raise InputError(f"imitation_steps is {self.imitation_steps}; it must be from 0 to steps, {self.steps}")
        for name in ("learning_rate", "imitation_learning_rate"):
            if not 0 < (rate := getattr(self, name)) < 1:
                raise InputError(f"{name} is {rate}; it must lie between 0 and 1")
        if not 0 <= (self.last_learning_rate or 0) <= self.learning_rate:
            raise InputError(
                f"last_learning_rate is {self.last_learning_rate}; "
                f"it must be from 0 to learning_rate, {self.learning_rate}"
            )
        if self.max_grad_norm <= 0:
            raise InputError(f"max_grad_norm is {self.max_grad_norm}; it must be above 0")
        if self.value_weight < 0:
            raise InputError(f"value_weight is {self.value_weight}; it must be at least 0")

    @property
    @abstractmethod
    def objective(self) -> Objective: ...

    @abstractmethod
    def network(self) -> nn.Module:
        """Return a new network, which is also a `Network`; PyTorch's seed is set."""

    def value_function(self) -> nn.Module:
        """Return a new value function, a `ValueFunction`, for trainings with one sample of each graph."""
        raise InputError("samples is 1; without a value function it must be at least 2")

    @property
    def answers(self) -> int:
        """The number of plans that a policy answers with: the likeliest actions, and others that are drawn. The best
        counts at a validation."""
        return 1

    @property
    def passes(self) -> int:
        """The number of times that a step learns from its samples; more than 1 only with a `ReusingAlgorithm`."""
        return 1

    def algorithm(self, network: Network, networks: nn.Module, value_function: ValueFunction | None) -> Algorithm:
        """Return the algorithm that turns rewards into gradients. networks: the network and the value function, if
        there is one."""
        from placewright.lab.learning.algorithms.reinforce import Reinforce

        return Reinforce(
            network=network, networks=networks, value_function=value_function, value_weight=self.value_weight
        )

    @abstractmethod
    def environment(self, problem: Problem, number: int, split: Split) -> Environment:
        """Return the environment of a problem to learn from or to validate on. number: in the set, which may be a
        seed."""

    @abstractmethod
    def trained_policy(self, name: str, weights: Weights, record: Mapping[str, Any]) -> Policy:
        """Return the trained policy. weights: those of the network, by name."""

    def learning_rate_at(self, step: int) -> float:
        """Return the learning rate after that many steps."""
        if step < self.imitation_steps:
            done = step / self.imitation_steps
            return self.imitation_learning_rate + (self.learning_rate - self.imitation_learning_rate) * done
        last = self.learning_rate if self.last_learning_rate is None else self.last_learning_rate
        done = (step - self.imitation_steps) / max(1, self.steps - self.imitation_steps)
        return self.learning_rate + (last - self.learning_rate) * done
