"""What a learner is, beside its policy (`placewright.methods.policies`): an environment and an algorithm. Trainer,
workers, checkpoints, records and policy files know nothing else of it (docs/lab/own-policies.md)."""

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

#: What a policy decides about each op, int64 [num ops, num choices].
Actions: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Demonstration:
    """Actions of an expert, and how much they count, from 0 to 1."""

    actions: Actions
    weight: float


class Environment(Protocol):
    """One problem to learn on: turns guides into rewards."""

    @property
    def problem(self) -> Problem: ...

    @property
    def observation(self) -> Any:
        """What the policy sees of it."""
        ...

    def rewards(self, guides: Sequence[Guide], seeds: Sequence[int]) -> list[float]:
        """Of each guide, drawn from with its seed: minus the objective reached, over that of a reference."""
        ...


class DemonstratingEnvironment(Environment, Protocol):
    """One with an expert, as imitation needs it."""

    @property
    def demonstration(self) -> Demonstration: ...


class ActionDistribution(Protocol):
    """Of the actions of one observation, by a network in training."""

    def sample(self, seed: int) -> Actions: ...

    def choose(self, seed: int) -> Actions:
        """As the policy chooses when it is used: at random, or the likeliest."""
        ...

    def evaluate(self, actions: Sequence[Actions]) -> tuple[Tensor, Decisions]:
        """The logarithm of the probability of each of the actions, [samples]; and how the policy decides."""
        ...


class Network(Protocol):
    """A policy in training: a torch.nn.Module that can do this too."""

    def distribution(self, observation: Any) -> ActionDistribution: ...

    def guide(self, problem: Problem, observation: Any, actions: Actions) -> Guide:
        """What the actions stand for."""
        ...


class ValueFunction(Protocol):
    """The reward to expect of an observation: a torch.nn.Module called with it."""

    def __call__(self, observation: Any) -> Tensor: ...


@dataclass(frozen=True, kw_only=True, eq=False)
class Samples:
    """What a policy drew on one problem, for algorithms that learn from it more than once.

    actions, rewards: of each sample. log_probability: of each decision when it was drawn, float32 [samples, decisions].
    """

    actions: tuple[Actions, ...]
    rewards: tuple[float, ...]
    log_probability: NDArray[np.float32]


@dataclass(frozen=True, kw_only=True, eq=False)
class GradientEstimate:
    """What one problem says about where the weights should go.

    gradient: of the loss, float32, all weights in one row. rewards: of each sample, none where an expert was imitated.
    decisions: of the distribution, where actions were drawn or imitated. expected_reward: by the value function, where
    there is one. samples: where the algorithm can learn from them again.
    """

    gradient: NDArray[np.float32]
    loss: float
    rewards: tuple[float, ...]
    decisions: Decisions | None
    expected_reward: float | None
    samples: Samples | None = None


class Algorithm(Protocol):
    """Turns rewards, or demonstrations, into gradients."""

    def gradient(self, environment: Any, seeds: Sequence[int]) -> GradientEstimate:
        """From one problem. seeds: of the samples."""
        ...


class ReusingAlgorithm(Algorithm, Protocol):
    """One that learns from the same samples several times, while the weights change."""

    def gradient_again(self, environment: Any, samples: Samples) -> GradientEstimate: ...
