"""Imitation of an expert (behaviour cloning, Pomerleau 1989): its actions become likelier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import nn

from placewright.lab.learning.algorithms.descent import estimate
from placewright.lab.learning.protocols import DemonstratingEnvironment, GradientEstimate, Network


@dataclass(frozen=True, kw_only=True, eq=False)
class Imitation:
    """Imitation of an expert. networks: all networks that learn."""

    network: Network
    networks: nn.Module

    def gradient(self, environment: DemonstratingEnvironment, seeds: Sequence[int] = ()) -> GradientEstimate:
        """Return the gradient. All ops' actions count equally, and the demonstration by its weight. Seeds are not
        used."""
        demonstration = environment.demonstration
        distribution = self.network.distribution(environment.observation)
        log_probability, decisions = distribution.evaluate([demonstration.actions])
        loss = -demonstration.weight * log_probability[0] / environment.problem.core.num_ops
        return estimate(loss, self.networks, decisions=decisions)
