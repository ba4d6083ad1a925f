"""REGAL among the families of policies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from placewright.learning.family import PolicyFamily, configuration_of
from placewright.learning.protocols import Weights
from placewright.learning.regal.configuration import PolicyConfiguration, under_present_names
from placewright.learning.regal.policy import RegalPolicy
from placewright.learning.regal.trainings import TRAININGS


def read(*, name: str, configuration: Mapping[str, Any], weights: Weights, record: Mapping[str, Any]) -> RegalPolicy:
    """Raises InputError where the weights are not those of such a network."""
    settings = configuration_of(PolicyConfiguration, under_present_names(configuration))
    return RegalPolicy(name=name, configuration=settings, weights=weights, record=record)


REGAL = PolicyFamily(name="regal", read=read, trainings=lambda: TRAININGS)
