"""REGAL among the families of policies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from placewright.lab.learning.policy_configuration import configuration_of
from placewright.lab.learning.regal.configuration import PolicyConfiguration
from placewright.lab.learning.regal.policy import RegalPolicy
from placewright.lab.learning.regal.trainings import TRAININGS
from placewright.methods.policies import PolicyFamily, Weights


def read(*, name: str, configuration: Mapping[str, Any], weights: Weights, record: Mapping[str, Any]) -> RegalPolicy:
    """Raises InputError where the weights are not those of such a network."""
    settings = configuration_of(PolicyConfiguration, configuration)
    return RegalPolicy(name=name, configuration=settings, weights=weights, record=record)


REGAL = PolicyFamily(name="regal", read=read, trainings=lambda: TRAININGS)
