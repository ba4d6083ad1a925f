"""A trained policy: its network's weights and the problems it is for."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from placewright.lab.learning.policy import NetworkPolicy
from placewright.lab.learning.regal.actions import ActionSpace
from placewright.lab.learning.regal.configuration import PolicyConfiguration
from placewright.lab.learning.regal.features import NUM_EDGE_FEATURES, Context, context_of
from placewright.lab.learning.regal.forward import Logits, LogitsInOrder, logits_of
from placewright.problem import Problem
from placewright.proposal import Proposal


@dataclass(frozen=True, kw_only=True, eq=False)
class RegalPolicy(NetworkPolicy):
    configuration: PolicyConfiguration
    family: ClassVar[str] = "regal"
    configured_by: ClassVar[type[Any]] = PolicyConfiguration

    def shapes(self) -> dict[str, tuple[int, ...]]:
        return weight_shapes(self.configuration)

    def settings_in_title(self) -> str:
        """Return the settings that differ from their defaults, so that a new setting changes no title."""
        defaults = {each.name: each.default for each in fields(PolicyConfiguration)}
        varied = {name: value for name, value in asdict(self.configuration).items() if value != defaults[name]}
        return json.dumps(varied)

    def observe(self, problem: Problem, seed: int) -> Context:
        """Return features, after a search of 400 evaluations."""
        configuration = self.configuration
        return context_of(problem, seed, configuration.decoder, with_affinities=configuration.with_affinities)

    def guide(self, problem: Problem, observation: Context, seed: int) -> Proposal:
        """Return the proposal of actions drawn from the network's logits for the features."""
        self.check(problem)
        actions = choose(logits_of(self.weights, self.configuration, observation.features), self.configuration, seed)
        return self.configuration.action_space.proposal(problem, actions, observation.fixed_op)


def choose(logits: Logits, configuration: PolicyConfiguration, seed: int) -> NDArray[np.int64]:
    """Return levels for each choice of each op, [num ops, num choices], by the policy's own action selection."""
    if configuration.action_selection == "mean":
        assert not isinstance(logits, LogitsInOrder)
        return expected_levels(logits, configuration.action_space)
    return sample(logits, configuration.action_space, seed)


def expected_levels(logits: NDArray[np.float32], space: ActionSpace) -> NDArray[np.int64]:
    """Return the level nearest to the mean of each choice's levels by the softmax of its logits, [num ops, num
    choices]."""
    count = [*space.levels, *([space.elite_bias_levels] if space.elite_bias_levels else [])]
    choices = np.split(logits, np.cumsum(count)[:-1], axis=1)
    if space.elite_bias_levels:
        choices[-1] = np.broadcast_to(choices[-1].mean(axis=0), choices[-1].shape)
    columns = []
    for choice in choices:
        weight = np.exp(choice - choice.max(axis=1, keepdims=True))
        columns.append(np.rint(weight @ np.arange(choice.shape[1]) / weight.sum(axis=1)).astype(np.int64))
    return np.column_stack(columns)


def sample(logits: Logits, space: ActionSpace, seed: int) -> NDArray[np.int64]:
    """Draw a level for each choice of each op, [num ops, num choices], by the softmax of the choice's logits: the
    largest of the logits after Gumbel noise. A choice that ops make together uses the mean of their logits."""
    random = np.random.default_rng(seed)
    is_level = np.arange(max(space.levels)) < np.array(space.levels)[:, None]  # [choices, most levels]
    logit = np.cumsum(is_level).reshape(is_level.shape) - 1  # arbitrary where there is no such level
    noise = np.full((len(logits), *is_level.shape), -np.inf)
    noise[:, is_level] = random.gumbel(size=(len(logits), sum(space.levels)))
    if isinstance(logits, LogitsInOrder):
        actions, logits = logits.drawn(lambda op, own: (own[logit] + noise[op]).argmax(axis=1))
    else:
        actions = (logits[:, logit] + noise).argmax(axis=2)
    if not space.elite_bias_levels:
        return actions
    together = logits[:, sum(space.levels) :].mean(axis=0)
    elite_bias = (together + random.gumbel(size=together.shape)).argmax()
    return np.column_stack([actions, np.full(len(actions), elite_bias)])


def weight_shapes(configuration: PolicyConfiguration) -> dict[str, tuple[int, ...]]:
    """Return the shape of every array of PolicyNetwork."""
    width = configuration.width
    shapes: dict[str, tuple[int, ...]] = {}

    def two_layers(name: str, num_inputs: int, num_outputs: int) -> None:
        for layer, shape in (("hidden", (width, num_inputs)), ("out", (num_outputs, width))):
            shapes[f"{name}.{layer}.weight"], shapes[f"{name}.{layer}.bias"] = shape, shape[:1]

    def gates(name: str, count: int, num_inputs: int, layer: str = "") -> None:
        for side, columns in (("ih", num_inputs), ("hh", width)):
            shapes[f"{name}.weight_{side}{layer}"] = (count * width, columns)
            shapes[f"{name}.bias_{side}{layer}"] = (count * width,)

    two_layers("states.encode_op", configuration.num_op_features, width)
    if configuration.network == "sequence":
        gates("states.recurrent", 4, width, "_l0")
    else:
        two_layers("states.encode_edge", NUM_EDGE_FEATURES, width)
        two_layers("states.along", 3 * width, width)
        two_layers("states.against", 3 * width, width)
        if configuration.update == "gru":
            gates("states.update", 3, width)
        else:
            two_layers("states.update", 2 * width, width)
    if configuration.network == "autoregressive":
        gates("recurrent", 4, width + sum(configuration.action_space.levels), "_l0")
    two_layers("act", width, configuration.action_space.num_logits)
    return shapes
