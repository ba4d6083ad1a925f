"""Spotlight (Gao, Chen & Li, Spotlight: Optimizing Device Placement for Training Deep Neural Networks, ICML 2018)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count

from placewright.lab.learning.placers.placer import (
    LearnedPlacer,
    Proposals,
    Task,
    check_noise,
    check_sizes,
    falling_noise,
)
from placewright.lab.learning.placers.torch_needed import torch_on_one_thread


@dataclass(frozen=True, kw_only=True)
class Spotlight(LearnedPlacer):
    """The groups are placed one after the other by a sequence-to-sequence network, each a decision of its own that
    proximal policy optimisation makes likelier or less likely, no further than the clip.

    samples: placements between two updates. hidden, kind_width, shared_noise: as in ColocRl. clip, epochs, entropy: as
    in Ppo.
    """

    name: str = "spotlight"
    samples: int = 8
    hidden: int = 64
    kind_width: int = 16
    learning_rate: float = 1e-3
    max_grad_norm: float = 1.0
    clip: float = 0.2
    epochs: int = 4
    entropy: float = 0.01
    shared_noise: float = 3.0

    def __post_init__(self) -> None:
        check_sizes(self.samples, self.hidden)
        check_noise(self.shared_noise)

    def proposals(self, task: Task) -> Proposals:
        with torch_on_one_thread(self.name):
            yield from self._learning(task)

    def _learning(self, task: Task) -> Proposals:
        from placewright.lab.learning.algorithms.ppo import Ppo, Rollout, standard_advantage
        from placewright.lab.learning.placers.placement_policy import seeded
        from placewright.lab.learning.placers.sequence_network import SequencePlacer, sequence_placer

        def make() -> SequencePlacer:
            return sequence_placer(task, self.kind_width, self.hidden, self.shared_noise)

        policy, generator = seeded(make, task.seed)
        learner = Ppo(
            policy,
            learning_rate=self.learning_rate,
            clip=self.clip,
            epochs=self.epochs,
            entropy=self.entropy,
            max_grad_norm=self.max_grad_norm,
        )
        for step in count():
            policy.shared_noise = falling_noise(self.shared_noise, step * self.samples, task.evaluations)
            actions = policy.sample(self.samples, generator)
            trials = yield actions.numpy()
            learner.step([Rollout(policy=policy, actions=actions, advantage=standard_advantage(trials.cost))])
