"""A learned list scheduler: it places the ops of any graph on any number of devices."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

import placewright._core as _core
from placewright.guide import Placement
from placewright.lab.learning.learned_list.clusters import Clusters, clusters_of
from placewright.lab.learning.learned_list.settings import LearnedListConfiguration
from placewright.lab.learning.policy import NetworkPolicy
from placewright.methods.policies import Weights
from placewright.problem import Problem


def weight_shapes(hidden: int) -> dict[str, tuple[int, ...]]:
    """Of the score's arrays, by the names that ScoreNetwork gives them."""
    features = _core.NUM_PAIR_FEATURES
    return {"linear": (features,), "hidden.weight": (hidden, features), "hidden.bias": (hidden,), "output": (hidden,)}


def scored(
    small: _core.Problem, weights: Weights, window: int, seed: int | None = None
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Device and order of the ops of `small`: always the pair of highest score, or with a seed drawn by the softmax."""
    return _core.scored_schedule(
        small,
        np.ascontiguousarray(weights["linear"]),
        np.ascontiguousarray(weights["hidden.weight"].T),
        np.ascontiguousarray(weights["hidden.bias"]),
        np.ascontiguousarray(weights["output"]),
        window,
        seed,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class LearnedListPolicy(NetworkPolicy):
    configuration: LearnedListConfiguration
    family: ClassVar[str] = "learned-list"
    configured_by: ClassVar[type[Any]] = LearnedListConfiguration

    def shapes(self) -> dict[str, tuple[int, ...]]:
        return weight_shapes(self.configuration.hidden)

    def check(self, problem: object) -> None:
        """Raises InputError unless ops are to be placed; it learned for the step time, and sees memory limits."""
        self.placing(problem)

    def observe(self, problem: Problem, seed: int) -> Clusters:
        """The problem's clusters. No seed matters."""
        self.check(problem)
        return clusters_of(problem, self.configuration.parts[0])

    def guide(self, problem: Problem, observation: Clusters, seed: int) -> Placement:
        """Of the pairs of highest score. No seed matters."""
        self.check(problem)
        device_of, _ = scored(observation.core, self.weights, self.configuration.window)
        return Placement(device_of=observation.placement(device_of))

    def placements(self, small: _core.Problem, is_scarce: bool) -> Iterator[tuple[str, NDArray[np.int32]]]:
        """As `ClusterList` takes them."""
        yield self.title, scored(small, self.weights, self.configuration.window)[0]


def untrained(configuration: LearnedListConfiguration) -> LearnedListPolicy:
    """Whose score is about that of earliest task first: what starts first, of these what has the longest path, of
    these what ends first. Its hidden units say nothing."""
    weights = {name: np.zeros(shape, np.float32) for name, shape in weight_shapes(configuration.hidden).items()}
    weights["linear"][:5] = EARLIEST_FIRST
    return LearnedListPolicy(name="untrained", configuration=configuration, weights=weights)


#: Weights of the first features, in the order of the core's `PairFeature`: start, idle, load, finish, level.
EARLIEST_FIRST = np.array([-1.0, 0.0, 0.0, -0.05, -0.05], np.float32)
