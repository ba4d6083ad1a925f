"""Trainings of GDP's policies over several graphs, by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from placewright.lab.learning.environments.placed_units import PlacedUnits, measured_on_one_device
from placewright.lab.learning.gdp.policy import GdpPolicy
from placewright.lab.learning.gdp.settings import PAPER_NETWORK, SAMPLES, GdpConfiguration
from placewright.lab.learning.placers.colocation import units_of
from placewright.lab.learning.protocols import Algorithm, Network, ValueFunction
from placewright.lab.learning.training import Split, TrainingConfiguration
from placewright.methods.policies import Weights
from placewright.problem import Problem
from placewright.problem.objective import Objective
from placewright.support.errors import InputError

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True, kw_only=True)
class GdpTraining(TrainingConfiguration):
    """PPO on placements of all graphs of a batch.

    Parameters
    ----------
    policy
        The policy that is trained.
    epochs
        Passes over the placements of a step.
    clip
        Largest distance of a decision's probability ratio from 1 that counts.
    entropy
        Weight of a decision's entropy, per nat.
    """

    policy: GdpConfiguration
    epochs: int = 4
    clip: float = 0.2
    entropy: float = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.samples < 2:
            raise InputError(f"samples is {self.samples}; placements of a step stand against one another: at least 2")
        if self.epochs < 1:
            raise InputError(f"epochs is {self.epochs}; it must be at least 1")
        if self.imitation_steps:
            raise InputError(f"imitation_steps is {self.imitation_steps}; GDP has no expert to imitate")
        if not 0 < self.clip < 1:
            raise InputError(f"clip is {self.clip}; it must be between 0 and 1")
        if self.entropy < 0:
            raise InputError(f"entropy is {self.entropy}; it must be at least 0")

    @property
    def objective(self) -> Objective:
        return self.policy.objective

    @property
    def answers(self) -> int:
        return 1 + SAMPLES

    @property
    def passes(self) -> int:
        return self.epochs

    def network(self) -> nn.Module:
        from placewright.lab.learning.gdp.network import GdpNetwork

        return GdpNetwork(self.policy)

    def algorithm(self, network: Network, networks: nn.Module, value_function: ValueFunction | None) -> Algorithm:
        from placewright.lab.learning.algorithms.ppo import PpoGradient

        return PpoGradient(network=network, networks=networks, clip=self.clip, entropy=self.entropy)

    def environment(self, problem: Problem, number: int, split: Split) -> PlacedUnits:
        """Return the environment of a problem. At validations the reward is minus the time itself over that of the best
        single device."""
        from placewright.lab.learning.gdp.observation import observe

        observation = observe(problem, units_of(problem, self.policy.colocation))
        measured = measured_on_one_device(problem)
        return PlacedUnits(problem=problem, observation=observation, measured=measured, root=split == "train")

    def trained_policy(self, name: str, weights: Weights, record: Mapping[str, Any]) -> GdpPolicy:
        return GdpPolicy(name=name, configuration=self.policy, weights=weights, record=record)


#: Machines that trainings are for; a policy places on any with as many devices.
_MACHINES = ("2xp100", "4xp100", "8xp100")


def _training(machine: str) -> GdpTraining:
    """Return a training sized for two cores: in the paper a batch has a P100 for each of its graphs."""
    return GdpTraining(
        policy=GdpConfiguration(num_devices=int(machine.partition("x")[0])),
        machine=machine,
        control="signal",
        steps=400,
        batch=2,
        samples=16,
        learning_rate=1e-3,
        last_learning_rate=1e-4,
        max_grad_norm=1.0,
        checkpoint_interval=20,
        validation_interval=20,
        validation_graphs=12,
    )


def _variants(training: GdpTraining) -> dict[str, GdpTraining]:
    """Return variants by the suffix of their names: with parts left out, and with the paper's size."""
    policy = training.policy

    def with_network(**settings: Any) -> GdpTraining:
        return replace(training, policy=replace(policy, network=replace(policy.network, **settings)))

    return {
        "": training,
        "-no-attention": with_network(attention=False),
        "-no-superposition": with_network(superposition="off"),
        "-without-noise": replace(training, policy=replace(policy, shared_noise=0.0)),
        "-paper": replace(
            training,
            policy=replace(policy, network=PAPER_NETWORK, colocation=(), shared_noise=0.0),
            learning_rate=1e-4,
            last_learning_rate=None,
            steps=10_000,
        ),
    }


TRAININGS: dict[str, GdpTraining] = {
    f"{machine}{end}": training for machine in _MACHINES for end, training in _variants(_training(machine)).items()
}
