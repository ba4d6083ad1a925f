"""Policies with random weights, as tests need them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from placewright.policies.configuration import CONFIGURATIONS, PolicyConfiguration
from placewright.policies.policy import Policy, weight_shapes

SMALL = replace(CONFIGURATIONS["runtime-synthetic"], width=8, scheduling_levels=3)


def random_policy(configuration: PolicyConfiguration = SMALL, seed: int = 0, name: str = "random") -> Policy:
    random = np.random.default_rng(seed)
    weights = {
        name: (random.normal(size=shape) / np.sqrt(shape[-1])).astype(np.float32)
        for name, shape in weight_shapes(configuration).items()
    }
    return Policy(name=name, configuration=configuration, weights=weights, record={"steps": 0})
