"""Policies with random weights, as tests need them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from placewright.lab.learning.regal.configuration import CONFIGURATIONS, PolicyConfiguration
from placewright.lab.learning.regal.features import Features
from placewright.lab.learning.regal.forward import LogitsInOrder, Weights, logits_of
from placewright.lab.learning.regal.policy import RegalPolicy, weight_shapes

SMALL = replace(CONFIGURATIONS["runtime-synthetic"], width=8, scheduling_levels=3)


def random_policy(configuration: PolicyConfiguration = SMALL, seed: int = 0, name: str = "random") -> RegalPolicy:
    random = np.random.default_rng(seed)
    weights = {
        name: (random.normal(size=shape) / np.sqrt(shape[-1])).astype(np.float32)
        for name, shape in weight_shapes(configuration).items()
    }
    return RegalPolicy(name=name, configuration=configuration, weights=weights, record={"steps": 0})


def logits_given(
    weights: Weights, configuration: PolicyConfiguration, graph: Features, actions: np.ndarray
) -> np.ndarray:
    """Return the logits of numpy's forward pass when those actions are drawn, [num ops, num choices]."""
    logits = logits_of(weights, configuration, graph)
    if not isinstance(logits, LogitsInOrder):
        return logits
    alone = actions[:, : len(configuration.action_space.levels)]
    return logits.drawn(lambda op, _: alone[op])[1]


def random_actions(configuration: PolicyConfiguration, num_ops: int, seed: int = 0) -> np.ndarray:
    """Return random int64 actions [num ops, num choices], without the action that ops choose together."""
    levels = configuration.action_space.levels
    return np.random.default_rng(seed).integers(levels, size=(num_ops, len(levels)))
