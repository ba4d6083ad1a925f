"""A trained GDP policy: it places the units of any graph on as many devices as it was trained for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from placewright.guide import Placement
from placewright.lab.learning.gdp.settings import GdpConfiguration
from placewright.lab.learning.placers.colocation import units_of
from placewright.lab.learning.policy_configuration import configuration_of
from placewright.lab.learning.policy_weights import check_weights, title_of
from placewright.lab.learning.purpose import check_purpose
from placewright.methods.policies import Weights
from placewright.problem import Problem
from placewright.support.errors import shown

if TYPE_CHECKING:
    from placewright.lab.learning.gdp.observation import Observation


@dataclass(frozen=True, kw_only=True, eq=False)
class GdpPolicy:
    """weights: float32 arrays by the names GdpNetwork gives them. record: how it was trained, JSON values.

    Raises InputError when the weights are not those of such a network, and MissingExtraError without torch_geometric.
    """

    name: str
    configuration: GdpConfiguration
    weights: Weights
    record: Mapping[str, Any] = field(default_factory=dict)
    family: ClassVar[str] = "gdp"

    def __post_init__(self) -> None:
        from placewright.lab.learning.gdp.network import weight_shapes

        check_weights(self.name, self.weights, weight_shapes(self.configuration))

    @cached_property
    def title(self) -> str:
        """Its name and a digest of what decides its placements."""
        return title_of(self.name, json.dumps(asdict(self.configuration), sort_keys=True), self.weights)

    def check(self, problem: object) -> None:
        """Raises InputError unless the policy is for such a problem."""
        check_purpose(f"policy '{shown(self.name)}'", self.configuration, problem)

    def observe(self, problem: Problem, seed: int) -> Observation:
        """Features of the problem's units. No seed matters."""
        from placewright.lab.learning.gdp.observation import observe

        self.check(problem)
        return observe(problem, units_of(problem, self.configuration.colocation))

    def guide(self, problem: Problem, observation: Observation, seed: int) -> Placement:
        """The likeliest device of every unit. No seed matters."""
        import torch

        from placewright.lab.learning.gdp.network import network_with

        self.check(problem)
        network = network_with(self.configuration, self.weights)
        with torch.no_grad():
            actions = network.distribution(observation).choose(seed)
        return network.guide(problem, observation, actions)


def read(*, name: str, configuration: Mapping[str, Any], weights: Weights, record: Mapping[str, Any]) -> GdpPolicy:
    """Raises InputError where the weights are not those of such a network."""
    settings = configuration_of(GdpConfiguration, configuration)
    return GdpPolicy(name=name, configuration=settings, weights=weights, record=record)
