"""Placeto (Addanki et al., Learning Generalizable Device Placement Algorithms for Distributed Machine Learning, NeurIPS
2019)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from placewright.lab.learning.placers.placer import LearnedPlacer, Proposals, Task, torch_on_one_thread
from placewright.support.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Placeto(LearnedPlacer):
    """A placer that starts with everything on one device and visits the groups one after the other: a network that sees
    the whole placement so far may move the visited group. A move's reward is the reduction of the placement's cost from
    then to the end of the episode (REINFORCE, discount 1), compared with the mean reduction of the last episodes from
    that group on.

    samples: episodes at once. measurements: of the placements of an episode, evenly spread, the last at its end; 0 for
    one after each decision. learned: number of decisions of an episode that are learned from, drawn at random; 0 for
    all. hidden, rounds: of messages. episodes: number of episodes whose mean is the baseline. steps: over which the
    learning rate falls to the last learning rate and the weight of entropy to 0.
    """

    name: str = "placeto"
    samples: int = 4
    measurements: int = 8
    learned: int = 32
    hidden: int = 16
    rounds: int = 8
    learning_rate: float = 3e-3
    last_learning_rate: float = 3e-4
    steps: int = 100
    entropy: float = 0.01
    episodes: int = 10
    max_grad_norm: float = 1.25

    def __post_init__(self) -> None:
        for name in ("samples", "hidden", "rounds", "steps", "episodes"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}; it must be at least 1")
        for name in ("measurements", "learned"):
            if getattr(self, name) < 0:
                raise InputError(f"{name} is {getattr(self, name)}; it must be at least 0, for all")

    def proposals(self, task: Task) -> Proposals:
        with torch_on_one_thread(self.name):
            from placewright.lab.learning.algorithms.reinforce import StepBaseline
            from placewright.lab.learning.placers.placement_policy import seeded
            from placewright.lab.learning.placers.placeto_network import Episodes, NodePlacer, Observer, unit_starts

            observer, count = Observer(task), task.units.count
            policy, generator = seeded(
                lambda: NodePlacer(observer.edges, observer.allowed, observer.width, self.hidden, self.rounds),
                task.seed,
            )
            learner = StepBaseline(
                policy,
                learning_rates=(self.learning_rate, self.last_learning_rate),
                steps=self.steps,
                entropy=self.entropy,
                episodes=self.episodes,
                max_grad_norm=self.max_grad_norm,
            )
            random, ends = np.random.default_rng(task.seed), measured_after(count, self.measurements)
            first = np.repeat(task.units.allowed.argmax(1)[None], self.samples, 0)
            trials = yield first[:1]
            at_first = np.repeat(trials.cost, self.samples)
            starts = unit_starts(task.problem, task.units, first)
            while True:
                learned = np.sort(random.permutation(count)[: self.learned or count])
                episodes, costs = Episodes(observer, policy, first, starts, learned), [at_first]
                for node in range(count):
                    episodes.visit(node, generator)
                    cost = costs[-1]
                    if ends[node]:
                        cost = (yield episodes.devices).cost
                        episodes.starts = unit_starts(task.problem, task.units, episodes.devices)
                    costs.append(cost)
                before, after = np.stack(costs[:-1], 1), costs[-1][:, None]
                learner.step(episodes.likelihood(), before - after, learned)


def measured_after(count: int, measurements: int) -> NDArray[np.bool_]:
    """Return a mask, [count], of the groups after whose decision the placement is measured: `measurements` of them, 0
    for all; always after the last."""
    found = np.zeros(count, bool)
    found[np.linspace(0, count, min(measurements or count, count) + 1)[1:].round().astype(int) - 1] = True
    return found


#: Everything as in the paper and its published code, which leave the width of messages open.
PLACETO_PAPER = Placeto(
    name="placeto-paper",
    samples=8,
    measurements=0,
    learned=0,
    learning_rate=1e-3,
    last_learning_rate=1e-4,
    steps=1000,
    entropy=1.0,
)
