"""Evolution strategies with antithetic perturbations (Salimans et al., Evolution Strategies as a Scalable Alternative
to Reinforcement Learning, 2017): weights move to where rewards of the actions a policy chooses grow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from placewright.lab.learning.protocols import Environment, GradientEstimate, Network


@dataclass(frozen=True, kw_only=True, eq=False)
class EvolutionStrategy:
    """deviation: of the perturbations, alike for all weights. networks: all that learns."""

    network: Network
    networks: nn.Module
    deviation: float

    def gradient(self, environment: Environment, seeds: Sequence[int]) -> GradientEstimate:
        """Each seed perturbs the weights once in a direction and once against it. Rewards count in their standard
        deviations, so that no problem counts for more because it is harder to place."""
        weights = parameters_to_vector(self.networks.parameters()).detach().numpy().copy()
        random = (np.random.default_rng(seed).standard_normal(len(weights)).astype(np.float32) for seed in seeds)
        directions = np.stack(list(random))
        try:
            rewards = np.array(
                [
                    [self._reward(environment, weights + side * self.deviation * each, seed) for side in (1, -1)]
                    for each, seed in zip(directions, seeds, strict=True)
                ]
            )
        finally:
            self._set(weights)
        scale = max(float(rewards.std()), 1e-6) * 2 * len(seeds)
        gradient = -((rewards[:, 0] - rewards[:, 1]) / scale) @ directions
        return GradientEstimate(
            gradient=gradient.astype(np.float32),
            loss=-float(rewards.mean()),
            rewards=tuple(rewards.ravel().tolist()),
            decisions=None,
            expected_reward=None,
        )

    def _reward(self, environment: Environment, weights: NDArray[np.float32], seed: int) -> float:
        self._set(weights)
        problem, observation = environment.problem, environment.observation
        with torch.no_grad():
            actions = self.network.distribution(observation).choose(seed)
        return environment.rewards([self.network.guide(problem, observation, actions)], [seed])[0]

    def _set(self, weights: NDArray[np.float32]) -> None:
        vector_to_parameters(torch.from_numpy(weights), self.networks.parameters())
