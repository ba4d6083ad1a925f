"""A network of GDP that learns to place one graph."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from placewright.lab.learning.gdp.distribution import drawn
from placewright.lab.learning.gdp.network import GdpNetwork
from placewright.lab.learning.gdp.observation import Observation
from placewright.lab.learning.placers.placement_policy import Likelihood, likelihood


class GraphPolicy(nn.Module):
    """A network as the policy of one graph: a `PlacementPolicy`."""

    def __init__(self, network: GdpNetwork, observation: Observation) -> None:
        super().__init__()
        self.network, self.observation = network, observation
        self.shared_noise = network.shared_noise

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        return self.sample_beside_greedy(count, generator)[1:]

    def sample_beside_greedy(self, count: int, generator: torch.Generator) -> Tensor:
        """The likeliest placement, then so many that are drawn. [1 + count, units]"""
        with torch.no_grad():
            logits = self.network(self.observation)
        devices = drawn(logits, self.observation, self.shared_noise, count, generator)
        return torch.cat([logits.argmax(1)[None], devices])

    def evaluate(self, actions: Tensor) -> Likelihood:
        return likelihood(self.network(self.observation).expand(len(actions), -1, -1), actions)

    def devices(self, actions: Tensor) -> NDArray[np.int64]:
        return actions.numpy()
