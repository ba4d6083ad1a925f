"""How learned list schedulers are trained, by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from placewright.lab.datasets.other_devices import on_machine
from placewright.lab.learning.environments.demonstrated_placement import DemonstratedPlacement
from placewright.lab.learning.environments.placement import completed
from placewright.lab.learning.learned_list.clusters import clusters_of
from placewright.lab.learning.learned_list.policy import LearnedListPolicy, untrained
from placewright.lab.learning.learned_list.settings import LearnedListConfiguration
from placewright.lab.learning.protocols import Algorithm, Network, ValueFunction
from placewright.lab.learning.training import Split, TrainingConfiguration
from placewright.machines import load_machine
from placewright.methods.policies import Weights
from placewright.problem import Problem
from placewright.problem.objective import Objective
from placewright.support.errors import InputError

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True, kw_only=True)
class LearnedListTraining(TrainingConfiguration):
    """Imitation of `auto`, then an evolution strategy on the step time. Rewards are over the step time of the score
    before it learned.

    Parameters
    ----------
    policy
        What is trained.
    machine
        For whose first device the times of the graphs are stated.
    machines
        What to place on, a problem each by its number.
    deviation
        Of the perturbations of the weights.
    evaluations
        Of `auto`, where it is imitated.
    """

    policy: LearnedListConfiguration
    machines: tuple[str, ...]
    deviation: float = 0.05
    evaluations: int = 1000

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.machines:
            raise InputError("machines is empty; a training needs one to place on")
        if not 0 < self.deviation < 10:
            raise InputError(f"deviation is {self.deviation}; it must lie between 0 and 10")
        if self.evaluations < 1:
            raise InputError(f"evaluations is {self.evaluations}; it must be at least 1")
        if self.samples < 2:
            raise InputError(f"samples is {self.samples}; perturbations stand against one another: at least 2")

    @property
    def objective(self) -> Objective:
        return "step-time"

    def network(self) -> nn.Module:
        from placewright.lab.learning.learned_list.network import ScoreNetwork

        return ScoreNetwork(self.policy)

    def algorithm(self, network: Network, networks: nn.Module, value_function: ValueFunction | None) -> Algorithm:
        from placewright.lab.learning.algorithms.evolution_strategy import EvolutionStrategy

        return EvolutionStrategy(network=network, networks=networks, deviation=self.deviation)

    def environment(self, problem: Problem, number: int, split: Split) -> DemonstratedPlacement:
        """By its number a problem has its machine and the size of its clusters."""
        machine = load_machine(self.machines[number % len(self.machines)])
        placed = on_machine(problem, machine, problem.machine.devices[0])
        parts = self.policy.parts
        clusters = clusters_of(placed, parts[number // len(self.machines) % len(parts)])
        first = untrained(self.policy)
        reference = completed(placed, first.guide(placed, clusters, 0))[1]
        return DemonstratedPlacement(
            problem=placed, observation=clusters, reference=max(1, reference), evaluations=self.evaluations
        )

    def trained_policy(self, name: str, weights: Weights, record: Mapping[str, Any]) -> LearnedListPolicy:
        return LearnedListPolicy(name=name, configuration=self.policy, weights=weights, record=record)


#: From two to eight devices, equal and unequal, over PCI Express and NVLink.
_MACHINES = (
    "2xp100",
    "4xp100",
    "v100-32g+p100",
    "2xv100-32g+2xp100",
    "4xv100-32g/nvlink2",
    "8xp100",
    "v100-32g+2xp100+k80",
)
_STEP_TIME = LearnedListTraining(
    policy=LearnedListConfiguration(),
    machine="p100",
    machines=_MACHINES,
    control="signal",
    augmentations=1,
    max_ops=3000,
    steps=440,
    imitation_steps=40,
    batch=8,
    samples=16,
    learning_rate=0.02,
    last_learning_rate=0.004,
    imitation_learning_rate=0.02,
    checkpoint_interval=10,
    validation_interval=20,
    validation_graphs=40,
)
TRAININGS: dict[str, LearnedListTraining] = {
    "step-time": _STEP_TIME,
    "step-time-imitation": replace(_STEP_TIME, steps=_STEP_TIME.imitation_steps),
}
