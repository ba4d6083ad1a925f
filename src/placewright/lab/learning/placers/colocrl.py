"""ColocRL (Mirhoseini et al., Device Placement Optimization with Reinforcement Learning, ICML 2017)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from placewright.lab.learning.environments.first_come import FAILING_SIGNAL
from placewright.lab.learning.placers.placer import Learn, Task, falling_noise
from placewright.lab.learning.placers.sequence_placement import SequencePlacement

if TYPE_CHECKING:
    from placewright.lab.learning.placers.placement_policy import PlacementPolicy


@dataclass(frozen=True, kw_only=True)
class ColocRl(SequencePlacement):
    """An attentional sequence-to-sequence network over colocation groups, trained by REINFORCE on the square root of
    the step time.

    samples: the paper's K. first_baseline, baseline_decay, cut_off: as in MovingBaseline; the paper begins at the
    failing signal, which costs the first forty steps. shared_noise: falls over the first 2,400 placements whatever the
    budget; 0 as in the paper.
    """

    name: str = "colocrl"
    first_baseline: float | None = None
    baseline_decay: float = 0.9
    cut_off: int = 200

    def noise_after(self, tried: int, task: Task) -> float:
        return falling_noise(self.shared_noise, tried)

    def learner(self, policy: PlacementPolicy) -> Learn:
        from placewright.lab.learning.algorithms.reinforce import MovingBaseline

        return MovingBaseline(
            policy,
            learning_rate=self.learning_rate,
            start=self.first_baseline,
            decay=self.baseline_decay,
            cut_off=self.cut_off,
            max_grad_norm=self.max_grad_norm,
        ).learn


#: Sizes that the paper leaves open are those of the published code of its successor.
COLOCRL_PAPER = ColocRl(
    name="colocrl-paper", hidden=512, kind_width=32, first_baseline=FAILING_SIGNAL, cut_off=5000, shared_noise=0.0
)
