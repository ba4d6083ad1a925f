"""Spotlight (Gao, Chen & Li, Spotlight: Optimizing Device Placement for Training Deep Neural Networks, ICML 2018)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from placewright.lab.learning.placers.placer import Learn
from placewright.lab.learning.placers.sequence_placement import SequencePlacement

if TYPE_CHECKING:
    from placewright.lab.learning.placers.placement_policy import PlacementPolicy


@dataclass(frozen=True, kw_only=True)
class Spotlight(SequencePlacement):
    """A placer in which each group's device is a separate decision; proximal policy optimisation makes it likelier or
    less likely, no further than the clip.

    clip, epochs, entropy: as in Ppo.
    """

    name: str = "spotlight"
    clip: float = 0.2
    epochs: int = 4
    entropy: float = 0.01

    def learner(self, policy: PlacementPolicy) -> Learn:
        from placewright.lab.learning.algorithms.ppo import Ppo

        return Ppo(
            policy,
            learning_rate=self.learning_rate,
            clip=self.clip,
            epochs=self.epochs,
            entropy=self.entropy,
            max_grad_norm=self.max_grad_norm,
        ).learn
