"""The common part of ColocRL and Spotlight: their network and its sizes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from placewright.lab.learning.placers.placer import NetworkPlacer, Task, check_noise, check_sizes

if TYPE_CHECKING:
    from placewright.lab.learning.placers.sequence_network import SequencePlacer


@dataclass(frozen=True, kw_only=True)
class SequencePlacement(NetworkPlacer):
    """A placer whose groups are placed one after the other by ColocRL's attentional sequence-to-sequence network.

    hidden: of the LSTMs; kind_width: of the embedding of an op's kind.
    """

    hidden: int = 64
    kind_width: int = 16

    def __post_init__(self) -> None:
        check_sizes(self.samples, self.hidden)
        check_noise(self.shared_noise)

    def policy_of(self, task: Task) -> SequencePlacer:
        from placewright.lab.learning.placers.sequence_network import sequence_placer

        return sequence_placer(task, self.kind_width, self.hidden, self.shared_noise)
