"""Spotlight (Gao, Chen & Li, Spotlight: Optimizing Device Placement for Training Deep Neural Networks, ICML 2018)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from placewright.lab.learning.placers.placer import Learn, NetworkPlacer, Task, check_noise, check_sizes

if TYPE_CHECKING:
    from placewright.lab.learning.placers.placement_policy import PlacementPolicy
    from placewright.lab.learning.placers.sequence_network import SequencePlacer


@dataclass(frozen=True, kw_only=True)
class Spotlight(NetworkPlacer):
    """The groups are placed one after the other by a sequence-to-sequence network, each a decision of its own that
    proximal policy optimisation makes likelier or less likely, no further than the clip.

    hidden, kind_width: as in ColocRl. clip, epochs, entropy: as in Ppo.
    """

    name: str = "spotlight"
    hidden: int = 64
    kind_width: int = 16
    clip: float = 0.2
    epochs: int = 4
    entropy: float = 0.01

    def __post_init__(self) -> None:
        check_sizes(self.samples, self.hidden)
        check_noise(self.shared_noise)

    def policy_of(self, task: Task) -> SequencePlacer:
        from placewright.lab.learning.placers.sequence_network import sequence_placer

        return sequence_placer(task, self.kind_width, self.hidden, self.shared_noise)

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
