"""HDP (Mirhoseini et al., A Hierarchical Model for Device Placement, ICLR 2018)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from placewright.lab.learning.environments.first_come import FAILING_SIGNAL
from placewright.lab.learning.placers.placer import Learn, NetworkPlacer, Task, check_sizes
from placewright.support.errors import InputError

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from placewright.lab.learning.placers.hierarchical_network import HierarchicalPlacer
    from placewright.lab.learning.placers.placement_policy import PlacementPolicy

#: Interval in steps at which the likeliest placement is tried, too: with bounded logits every device keeps a chance, so
#: a drawn placement of thousands of ops always has some ops apart from the rest.
LIKELIEST_EVERY = 10


@dataclass(frozen=True, kw_only=True)
class Hdp(NetworkPlacer):
    """HDP without given groups: a feed-forward network puts each op into a group, a sequence-to-sequence network gives
    each group its device, and REINFORCE trains both on the square root of the step time.

    groupings: drawn at a step, the paper's m; samples: placements of each, its k. num_groups: at most, and no more than
    groups_per_device for each device where that is not 0. kind_width: of the embedding of an op's kind; grouper_hidden:
    of the grouper's one layer, rectified or linear; hidden: of the LSTMs. temperature, bound: of the logits of devices,
    as in SequenceNetwork. logit_noise: noise on the logits in the first noisy_steps, relative to their root mean
    square. baseline: compares a placement with those of its step, in their standard deviations ("step"), or with a
    moving average ("moving"); first_baseline, baseline_decay, cut_off: as in MovingBaseline, for "moving". entropy:
    weight of a decision's nat, for "step".
    """

    name: str = "hdp"
    colocation: tuple[str, ...] = ()
    groupings: int = 1
    samples: int = 15
    num_groups: int = 256
    groups_per_device: int = 20
    kind_width: int = 16
    grouper_hidden: int = 64
    rectified: bool = True
    hidden: int = 64
    temperature: float = 1.0
    bound: float = 5.0
    logit_noise: float = 0.0
    noisy_steps: int = 0
    baseline: Literal["step", "moving"] = "step"
    entropy: float = 0.01
    first_baseline: float = FAILING_SIGNAL
    baseline_decay: float = 0.9
    cut_off: int = 200

    def __post_init__(self) -> None:
        check_sizes(self.samples, self.hidden)
        if self.groupings < 1 or self.num_groups < 1 or self.groups_per_device < 0:
            raise InputError(
                f"{self.groupings} groupings into {self.num_groups} groups, {self.groups_per_device} per device, "
                "cannot be drawn; there must be at least one of each"
            )
        if not (self.temperature > 0 and self.bound > 0 and min(self.logit_noise, self.shared_noise) >= 0):
            raise InputError(
                f"temperature {self.temperature}, bound {self.bound}, logit noise {self.logit_noise} and shared noise "
                f"{self.shared_noise} of logits: the first two must be above 0, the others at least 0"
            )

    @property
    def drawn(self) -> int:
        return self.groupings * self.samples

    def draw(self, policy: HierarchicalPlacer, step: int, generator: torch.Generator) -> Tensor:
        return policy.sample(self.groupings, generator, self.logit_noise if step < self.noisy_steps else 0.0)

    def tried_besides(self, policy: HierarchicalPlacer, step: int) -> Iterable[Tensor]:
        return [policy.likeliest()] if step and step % LIKELIEST_EVERY == 0 else []

    def policy_of(self, task: Task) -> HierarchicalPlacer:
        from placewright.lab.learning.placers.features import unit_features
        from placewright.lab.learning.placers.hierarchical_network import GroupEmbedding, Grouper, HierarchicalPlacer
        from placewright.lab.learning.placers.sequence_network import SequenceNetwork
        from placewright.lab.learning.placers.shared_noise import SharedNoise

        num_devices, features = task.problem.machine.num_devices, unit_features(task.problem, task.units)
        most = self.groups_per_device * num_devices or self.num_groups
        num_groups = min(self.num_groups, most, task.units.count)
        groups = GroupEmbedding(features, num_groups)
        placer = SequenceNetwork(groups.width, self.hidden, num_devices, temperature=self.temperature, bound=self.bound)
        noise = SharedNoise(features.edges, features.bytes_on, task.units.count)
        grouper = Grouper(
            features, num_groups, kind_width=self.kind_width, hidden=self.grouper_hidden, rectified=self.rectified
        )
        return HierarchicalPlacer(grouper, groups, placer, self.samples, noise, self.shared_noise, task.units.allowed)

    def learner(self, policy: PlacementPolicy) -> Learn:
        """Return the algorithm. With the baseline of a step REINFORCE equals one epoch of PPO: all ratios are still
        1."""
        from placewright.lab.learning.algorithms.ppo import Ppo
        from placewright.lab.learning.algorithms.reinforce import MovingBaseline

        rate, norm = self.learning_rate, self.max_grad_norm
        if self.baseline == "step":
            return Ppo(policy, learning_rate=rate, epochs=1, entropy=self.entropy, max_grad_norm=norm).learn
        return MovingBaseline(
            policy,
            learning_rate=rate,
            start=self.first_baseline,
            decay=self.baseline_decay,
            cut_off=self.cut_off,
            max_grad_norm=norm,
        ).learn


#: As in the paper; it leaves the cut-off open, so that is ColocRL's.
HDP_PAPER = Hdp(
    name="hdp-paper",
    samples=4,
    groups_per_device=0,
    kind_width=32,
    hidden=256,
    temperature=10.0,
    learning_rate=0.1,
    logit_noise=0.5,
    noisy_steps=500,
    shared_noise=0.0,
    baseline="moving",
    cut_off=5000,
)
#: The settings of the code that its authors published with TensorFlow, without its mistakes (docs/lab/placers.md).
HDP_GRAPPLER = Hdp(
    name="hdp-grappler",
    samples=1,
    kind_width=32,
    rectified=False,
    hidden=512,
    bound=1.0,
    learning_rate=0.1,
    logit_noise=0.5,
    noisy_steps=750,
    shared_noise=0.0,
    baseline="moving",
    cut_off=1000,
)
