"""A trained GDP policy: it places the units of any graph, on as many devices as it was trained for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from placewright.guide import Placement
from placewright.lab.learning.gdp.settings import GdpConfiguration
from placewright.lab.learning.placers.colocation import units_of
from placewright.lab.learning.policy import NetworkPolicy
from placewright.problem import Problem

if TYPE_CHECKING:
    from placewright.lab.learning.gdp.observation import Observation


@dataclass(frozen=True, kw_only=True, eq=False)
class GdpPolicy(NetworkPolicy):
    """A policy that places units. Raises MissingExtraError without torch_geometric."""

    configuration: GdpConfiguration
    family: ClassVar[str] = "gdp"
    configured_by: ClassVar[type[Any]] = GdpConfiguration

    def shapes(self) -> dict[str, tuple[int, ...]]:
        from placewright.lab.learning.gdp.network import weight_shapes

        return weight_shapes(self.configuration)

    def observe(self, problem: Problem, seed: int) -> Observation:
        """Return the features of the problem's units. Seeds are not used."""
        from placewright.lab.learning.gdp.observation import observe

        self.check(problem)
        return observe(problem, units_of(problem, self.configuration.colocation))

    def guide(self, problem: Problem, observation: Observation, seed: int) -> Placement:
        """Return the likeliest device of every unit. Seeds are not used."""
        import torch

        from placewright.lab.learning.gdp.network import network_with

        self.check(problem)
        network = network_with(self.configuration, self.weights)
        with torch.no_grad():
            actions = network.distribution(observation).choose(seed)
        return network.guide(problem, observation, actions)
