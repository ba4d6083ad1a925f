"""The learning parts: a policy's network, its value function for single samples, and the algorithms over both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from placewright.lab.learning.algorithms.imitation import Imitation
from placewright.lab.learning.protocols import (
    DemonstratingEnvironment,
    Environment,
    GradientEstimate,
    Network,
    ReusingAlgorithm,
    Samples,
    ValueFunction,
)
from placewright.lab.learning.training import TrainingConfiguration
from placewright.methods.policies import Weights

Float = NDArray[np.float32]


class Learner:
    """A learner, whose weights are exchanged as one vector."""

    def __init__(self, configuration: TrainingConfiguration, seed: int) -> None:
        torch.manual_seed(seed)
        self.network = configuration.network()
        value_function = configuration.value_function() if configuration.samples == 1 else None
        self._networks = nn.ModuleList([self.network, *([value_function] if value_function else [])])
        policy = cast(Network, self.network)
        self._answers = configuration.answers
        self._imitation = Imitation(network=policy, networks=self._networks)
        self._algorithm = configuration.algorithm(policy, self._networks, cast("ValueFunction | None", value_function))

    @property
    def weights(self) -> Float:
        found: Float = parameters_to_vector(self._networks.parameters()).detach().numpy().copy()
        return found

    @weights.setter
    def weights(self, values: Float) -> None:
        vector_to_parameters(torch.from_numpy(values), self._networks.parameters())

    @property
    def policy_weights(self) -> Weights:
        """The policy's weights by name, without the value function's."""
        return {name: tensor.numpy().copy() for name, tensor in self.network.state_dict().items()}

    def reward(self, environment: Environment, seed: int) -> float:
        """Return the best reward among the policy's answers: the actions that it would choose, and others that it
        draws."""
        network = cast(Network, self.network)
        seeds = range(seed, seed + self._answers)
        with torch.no_grad():
            distribution = network.distribution(environment.observation)
            answers = [distribution.choose(seed), *(distribution.sample(each) for each in seeds[1:])]
        guides = [network.guide(environment.problem, environment.observation, actions) for actions in answers]
        return max(environment.rewards(guides, seeds))

    def policy_gradient(
        self, environment: Environment, seeds: Sequence[int], samples: Samples | None = None
    ) -> GradientEstimate:
        """Return the gradient. samples: of an earlier pass, in place of new ones."""
        if samples is None:
            return self._algorithm.gradient(environment, seeds)
        return cast(ReusingAlgorithm, self._algorithm).gradient_again(environment, samples)

    def imitation_gradient(self, environment: DemonstratingEnvironment) -> GradientEstimate:
        return self._imitation.gradient(environment)
