"""The parts of a learner besides its policy (`placewright.methods.policies`): an environment and an algorithm. Trainer,
workers, checkpoints, records and policy files depend on nothing else (docs/lab/own-policies.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from placewright.guide import Guide
from placewright.lab.learning.decisions import Decisions
from placewright.problem import Problem

if TYPE_CHECKING:
    from torch import Tensor

#: A policy's decisions about each op, int64 [num ops, num choices].
Actions: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Demonstration:
    """Actions of an expert, and their weight, from 0 to 1."""

    actions: Actions
    weight: float


class Environment(Protocol):
    """One problem to learn on: turns guides into rewards."""

    @property
    def problem(self) -> Problem: ...

    @property
    def observation(self) -> Any:
        """The policy's view of the problem."""
        ...

    def rewards(self, guides: Sequence[Guide], seeds: Sequence[int]) -> list[float]:
        """Return for each guide, drawn from with its seed, minus the objective reached, over that of a reference."""
        ...


class DemonstratingEnvironment(Environment, Protocol):
    """An environment with an expert, which imitation needs."""

    @property
    def demonstration(self) -> Demonstration: ...


class ActionDistribution(Protocol):
    """A distribution of the actions of one observation, by a network in training."""

    def sample(self, seed: int) -> Actions: ...

    def choose(self, seed: int) -> Actions:
        """Return actions as the policy chooses them in use: at random, or the likeliest."""
        ...

    def evaluate(self, actions: Sequence[Actions]) -> tuple[Tensor, Decisions]:
        """Return the log probability of each of the actions, [samples], and statistics of the policy's decisions."""
        ...


class Network(Protocol):
    """A policy in training: a torch.nn.Module with these methods."""

    def distribution(self, observation: Any) -> ActionDistribution: ...

    def guide(self, problem: Problem, observation: Any, actions: Actions) -> Guide:
        """Return the guide that the actions represent."""
        ...


class ValueFunction(Protocol):
    """The expected reward of an observation: a torch.nn.Module called with it."""

    def __call__(self, observation: Any) -> Tensor: ...


@dataclass(frozen=True, kw_only=True, eq=False)
class Samples:
    """The actions that a policy drew on one problem, for algorithms that learn from them more than once.

    actions, rewards: of each sample. log_probability: of each decision when it was drawn, float32 [samples, decisions].
    """

    actions: tuple[Actions, ...]
    rewards: tuple[float, ...]
    log_probability: NDArray[np.float32]


@dataclass(frozen=True, kw_only=True, eq=False)
class GradientEstimate:
    """The gradient that one problem gives for the weights.

    gradient: of the loss, float32, all weights in one vector. rewards: of each sample, none where an expert was
    imitated. decisions: of the distribution, where actions were drawn or imitated. expected_reward: by the value
    function, where there is one. samples: where the algorithm can learn from them again.
    """

    gradient: NDArray[np.float32]
    loss: float
    rewards: tuple[float, ...]
    decisions: Decisions | None
    expected_reward: float | None
    samples: Samples | None = None


class Algorithm(Protocol):
    """An algorithm that turns rewards, or demonstrations, into gradients."""

    def gradient(self, environment: Any, seeds: Sequence[int]) -> GradientEstimate:
        """Return the gradient from one problem. seeds: of the samples."""
        ...


class ReusingAlgorithm(Algorithm, Protocol):
    """An algorithm that learns from the same samples several times, while the weights change."""

    def gradient_again(self, environment: Any, samples: Samples) -> GradientEstimate: ...
