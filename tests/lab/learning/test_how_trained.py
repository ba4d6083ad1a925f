"""Descriptions of how a policy was trained, from the record in its file."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from lab.learning.networks import random_policy

from placewright.lab.bench.plan_rows import training_of
from placewright.methods.policy_file import find_policy


@pytest.mark.parametrize(
    ("record", "trained"),
    [
        ({"step": 100, "training": {"imitation_steps": 0}}, "REINFORCE"),
        ({"step": 100, "training": {"imitation_steps": 300}}, "imitation"),
        ({"step": 100, "training": {"imitation_steps": 99}}, "imitation, then REINFORCE"),
        ({"step": 9, "training": {"imitation_steps": 0}, "learned": {"stopped": "grew"}}, "REINFORCE; learned nothing"),
        (
            {"step": 9, "training": {"imitation_steps": 0}, "learned": {"gain": 0.1, "gain_error": 0.2}},
            "REINFORCE; no gain shown",
        ),
        ({"step": 9, "training": {"imitation_steps": 0}, "learned": {"gain": 0.1, "gain_error": 0.0}}, "REINFORCE"),
        ({"step": 100, "training": {}}, "not recorded"),
        ({"step": 100}, "not recorded"),
        ({"training": {"imitation_steps": 0}}, "not recorded"),
        ({"step": 100, "training": {"imitation_steps": "many"}}, "not recorded"),
    ],
)
def test_a_record_says_how_a_policy_was_trained(record: dict[str, Any], trained: str) -> None:
    assert training_of(replace(random_policy(), record=record)) == trained


def test_shipped_policies_say_how_they_were_trained() -> None:
    trained = {name: training_of(find_policy(name)) for name in ("runtime-synthetic", "runtime-zoo-affinity-lazy")}
    assert trained == {"runtime-synthetic": "REINFORCE", "runtime-zoo-affinity-lazy": "imitation"}


def test_a_family_has_an_algorithm_of_its_own() -> None:
    record = {"step": 440, "training": {"imitation_steps": 40}}
    policy: Any = SimpleNamespace(family="gdp", weights={"w": np.zeros(1)}, record=record)
    assert training_of(policy) == "imitation, then PPO"
