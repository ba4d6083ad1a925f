"""A trained graph policy: it maps the tensors of any network on chips of as many levels."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from placewright.guide import Guide
from placewright.lab.learning.egrl.observation import NUM_FEATURES, observe
from placewright.lab.learning.egrl.settings import NetworkSettings
from placewright.lab.learning.policy_configuration import configuration_of
from placewright.lab.learning.policy_weights import check_weights, title_of
from placewright.memory_levels.problem import MemoryProblem
from placewright.methods.policies import PolicyFamily, Weights
from placewright.support.errors import InputError, shown


@dataclass(frozen=True, kw_only=True)
class MapPolicyConfiguration:
    """num_features: of an op; num_levels: of the chips that it is for; network: as in NetworkSettings."""

    num_levels: int
    num_features: int = NUM_FEATURES
    network: NetworkSettings = field(default_factory=NetworkSettings)

    def __post_init__(self) -> None:
        if self.num_features != NUM_FEATURES:
            raise InputError(
                f"a policy that sees {self.num_features} features of an op; this placewright has {NUM_FEATURES}"
            )
        if not 1 <= self.num_levels <= 8:
            raise InputError(f"a policy for {self.num_levels} memory levels; a chip has from 1 to 8")


@dataclass(frozen=True, kw_only=True, eq=False)
class MapPolicy:
    """weights: float32 arrays by the names PolicyNetwork gives them. record: how it was trained, JSON values.

    Raises InputError when the weights are not those of such a network.
    """

    name: str
    configuration: MapPolicyConfiguration
    weights: Weights
    record: Mapping[str, Any] = field(default_factory=dict)
    family: ClassVar[str] = "egrl"

    def __post_init__(self) -> None:
        check_weights(self.name, self.weights, weight_shapes(self.configuration))

    @cached_property
    def title(self) -> str:
        """Its name and eight digits of all that decides its maps."""
        return title_of(self.name, json.dumps(asdict(self.configuration), sort_keys=True), self.weights)

    def check(self, problem: object) -> None:
        """Raises InputError unless the policy is for such a problem."""
        if not isinstance(problem, MemoryProblem):
            raise InputError(
                f"policy '{shown(self.name)}' maps tensors to memory levels of one device, and places no ops on devices"
            )
        if problem.num_levels != self.configuration.num_levels:
            raise InputError(
                f"policy '{shown(self.name)}' is for chips of {self.configuration.num_levels} memory levels; "
                f"'{problem.chip.name}' has {problem.num_levels}"
            )

    def observe(self, problem: Any, seed: int) -> Any:
        """Features of its ops. No seed matters."""
        self.check(problem)
        return observe(problem)

    def guide(self, problem: Any, observation: Any, seed: int) -> Guide:
        """A policy of maps guides no search of plans."""
        self.check(problem)
        raise InputError(f"policy '{shown(self.name)}' makes maps, which guide no search")

    def node_levels(self, problem: MemoryProblem) -> NDArray[np.uint8]:
        """The level of each op's weights and of what it makes, [ops, 2]: the likeliest."""
        from placewright.lab.learning.egrl.network import NetworkActor, PolicyNetwork

        observation, own = self.observe(problem, 0), self.configuration
        network = PolicyNetwork(own.num_features, own.num_levels, own.network)
        return NetworkActor(network, observation).probabilities(self.weights).argmax(axis=-1).astype(np.uint8)


def weight_shapes(configuration: MapPolicyConfiguration) -> dict[str, tuple[int, ...]]:
    """Of every array of PolicyNetwork. Raises MissingExtraError without torch_geometric."""
    from placewright.lab.learning.egrl.network import PolicyNetwork, torch_seed

    with torch_seed(0):
        network = PolicyNetwork(configuration.num_features, configuration.num_levels, configuration.network)
    return {name: tuple(tensor.shape) for name, tensor in network.state_dict().items()}


def read(*, name: str, configuration: Mapping[str, Any], weights: Weights, record: Mapping[str, Any]) -> MapPolicy:
    """Raises InputError where the weights are not those of such a network."""
    settings = configuration_of(MapPolicyConfiguration, configuration)
    return MapPolicy(name=name, configuration=settings, weights=weights, record=record)


#: Trained by the solver `egrl` on one network, not by `train` on a set of graphs.
EGRL = PolicyFamily(name="egrl", read=read, trainings=dict, algorithm="EGRL")
