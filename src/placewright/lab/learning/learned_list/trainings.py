"""How learned list schedulers are trained, by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from placewright.lab.learning.environments.placement import SimulatedPlacement, completed
from placewright.lab.learning.learned_list.clusters import Clusters, clusters_of
from placewright.lab.learning.learned_list.network import as_actions
from placewright.lab.learning.learned_list.policy import LearnedListPolicy, untrained
from placewright.lab.learning.learned_list.settings import LearnedListConfiguration
from placewright.lab.learning.protocols import Algorithm, Demonstration, Network, ValueFunction
from placewright.lab.learning.training import Split, TrainingConfiguration
from placewright.machine import Device, Machine
from placewright.machines import load_machine
from placewright.methods.policies import Weights
from placewright.problem import Problem, make_problem
from placewright.problem.objective import Objective
from placewright.search.auto import Auto
from placewright.search.run.budget import Budget
from placewright.search.run.search_run import SearchRun
from placewright.support.errors import InputError

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True, kw_only=True, eq=False)
class DemonstratedPlacement(SimulatedPlacement):
    """observation: the clusters. evaluations: of `auto`, whose plan is imitated."""

    observation: Clusters
    evaluations: int

    @cached_property
    def demonstration(self) -> Demonstration:
        """The device where most of a cluster's time is spent in the plan, and clusters in the order of their last ops.

        A name of equal devices means nothing, nor does it here: devices that are equal and hold the same have the same
        features, so that whichever of them the plan takes, the same becomes likelier.
        """
        found = Auto().solve(self.problem, SearchRun(Budget(evaluations=self.evaluations))).solution
        ops = np.ascontiguousarray(found.order[found.order[:, 1] < 0, 0])
        device_of, order = self.observation.projected(self.problem, found.device_of, ops)
        return Demonstration(actions=as_actions(device_of, order), weight=1.0)


#: Limited by arithmetic; all other kinds by the memory's bandwidth.
_ARITHMETIC = frozenset({"matmul", "conv", "conv_backward", "rnn", "rnn_backward", "attention", "attention_backward"})


def on_machine(problem: Problem, machine: Machine, stated_for: Device) -> Problem:
    """The problem's graph on another machine, with the same objective and reading of control dependencies. A stated
    time is divided by how much more than `stated_for` a device does in a second: arithmetic where the op's kind is
    limited by it, else bytes, both at the rate that real kernels reach.

    Raises InputError where a device has no rate.
    """
    made = make_problem(problem.graph, machine, objective=problem.objective, control=problem.control)
    is_arithmetic = np.array([op.kind in _ARITHMETIC for op in problem.graph.ops])
    is_stated = np.array([op.time_ns is not None for op in problem.graph.ops])
    own = np.array(_rates(stated_for))
    factor = np.array([own / _rates(device) for device in machine.devices])
    scale = np.where(is_arithmetic[:, None], factor[:, 0], factor[:, 1])
    scaled = np.rint(made.time_ns * scale).astype(np.int64)
    return replace(made, time_ns=np.where(is_stated[:, None], scaled, made.time_ns))


def _rates(device: Device) -> tuple[float, float]:
    """FLOP/s and bytes/s that kernels reach."""
    if "default" not in device.peak_flops_per_s or device.memory_bandwidth_bytes_per_s is None:
        raise InputError(f"device '{device.name}' has no rate by which a stated time could be scaled")
    arithmetic = device.peak_flops_per_s["default"] * device.compute_efficiency
    return arithmetic, device.memory_bandwidth_bytes_per_s * device.bandwidth_efficiency


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
