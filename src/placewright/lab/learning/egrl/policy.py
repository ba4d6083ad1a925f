"""A trained graph policy: it maps the tensors of any network, on chips with the same number of levels."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from placewright.guide import Guide
from placewright.lab.learning.egrl.observation import NUM_FEATURES, observe
from placewright.lab.learning.egrl.settings import NetworkSettings
from placewright.lab.learning.policy import NetworkPolicy
from placewright.lab.memory_levels.problem import MemoryProblem
from placewright.methods.policies import PolicyFamily
from placewright.support.errors import InputError


@dataclass(frozen=True, kw_only=True)
class MapPolicyConfiguration:
    """A policy's configuration. num_features: of an op; num_levels: of the chips that it is for; network: as in
    NetworkSettings."""

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
class MapPolicy(NetworkPolicy):
    """A policy of maps. Raises MissingExtraError without torch_geometric."""

    configuration: MapPolicyConfiguration
    family: ClassVar[str] = "egrl"
    configured_by: ClassVar[type[Any]] = MapPolicyConfiguration

    def shapes(self) -> dict[str, tuple[int, ...]]:
        from placewright.lab.learning.egrl.network import PolicyNetwork, torch_seed

        own = self.configuration
        with torch_seed(0):
            network = PolicyNetwork(own.num_features, own.num_levels, own.network)
        return {name: tuple(tensor.shape) for name, tensor in network.state_dict().items()}

    def check(self, problem: object) -> None:
        """Raise InputError unless the policy is for such a problem."""
        if not isinstance(problem, MemoryProblem):
            raise InputError(f"{self.called} maps tensors to memory levels of one device, and places no ops on devices")
        if problem.num_levels != self.configuration.num_levels:
            raise InputError(
                f"{self.called} is for chips of {self.configuration.num_levels} memory levels; "
                f"'{problem.chip.name}' has {problem.num_levels}"
            )

    def observe(self, problem: Any, seed: int) -> Any:
        """Return the features of the problem's ops. Seeds are not used."""
        self.check(problem)
        return observe(problem)

    def guide(self, problem: Any, observation: Any, seed: int) -> Guide:
        """Raise InputError: a policy of maps cannot guide a search of plans."""
        self.check(problem)
        raise InputError(f"{self.called} makes maps, which guide no search")

    def node_levels(self, problem: MemoryProblem) -> NDArray[np.uint8]:
        """Return the likeliest level of each op's weights and of its result, [ops, 2]."""
        from placewright.lab.learning.egrl.network import NetworkActor, PolicyNetwork

        observation, own = self.observe(problem, 0), self.configuration
        network = PolicyNetwork(own.num_features, own.num_levels, own.network)
        return NetworkActor(network, observation).probabilities(self.weights).argmax(axis=-1).astype(np.uint8)


#: Trained by the solver `egrl` on one network, not by `train` on a set of graphs.
EGRL = PolicyFamily(name="egrl", read=MapPolicy.read, trainings=dict, algorithm="EGRL")
