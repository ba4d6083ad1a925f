"""A placement policy of one's own: a network of two layers looks at each op alone and draws its device (REINFORCE).

docs/lab/own-policies.md says how it is trained and planned with.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

import placewright
import placewright._core as core
from placewright.guide import Placement
from placewright.lab.learning.decisions import Decisions, decisions_of
from placewright.lab.learning.environments.placement import SimulatedPlacement, one_device_objective
from placewright.lab.learning.policy import NetworkPolicy
from placewright.lab.learning.protocols import Actions
from placewright.lab.learning.training import Split, TrainingConfiguration
from placewright.methods.policies import PolicyFamily, Weights
from placewright.problem import Problem
from placewright.problem.objective import Objective

FAMILY = "mlp-placer"
NUM_FEATURES = 6


def features(problem: Problem) -> Tensor:
    """Features of each op, [ops, 6]: position in the captured order, bottom level (time to the end), mean time, bytes
    it makes, and how many tensors it reads and makes; each as a share of the largest."""
    lowered, num_ops = problem.lowered, problem.core.num_ops
    time = problem.time_ns[lowered.graph_op].mean(axis=1)
    size = np.bincount(lowered.producer, lowered.transfer_bytes, num_ops)
    reads, makes = np.diff(lowered.input_begin), np.diff(lowered.output_begin)
    columns = [np.arange(num_ops), core.bottom_levels(problem.core), time, size, reads, makes]
    return torch.tensor(np.column_stack([column / max(1, column.max()) for column in columns]), dtype=torch.float32)


@dataclass(frozen=True, kw_only=True)
class MlpConfiguration:
    num_devices: int = 2
    width: int = 32


class DeviceDistribution:
    """Distributions of the device of each op, drawn independently. logits: [ops, devices]."""

    def __init__(self, logits: Tensor) -> None:
        self.log_probability = torch.log_softmax(logits, 1)

    def sample(self, seed: int) -> Actions:
        probability = self.log_probability.detach().exp().numpy()
        drawn = np.random.default_rng(seed).random((len(probability), 1)) > probability.cumsum(axis=1)[:, :-1]
        return np.asarray(drawn.sum(axis=1, keepdims=True))

    def choose(self, seed: int) -> Actions:
        return np.asarray(self.log_probability.detach().numpy().argmax(axis=1)[:, None])

    def evaluate(self, actions: Sequence[Actions]) -> tuple[Tensor, Decisions]:
        chosen = [self.log_probability.gather(1, torch.from_numpy(each)).sum() for each in actions]
        return torch.stack(chosen), decisions_of([self.log_probability])


class MlpNetwork(nn.Module):
    def __init__(self, configuration: MlpConfiguration) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(NUM_FEATURES, configuration.width),
            nn.Tanh(),
            nn.Linear(configuration.width, configuration.num_devices),
        )

    def distribution(self, observation: Tensor) -> DeviceDistribution:
        return DeviceDistribution(self.layers(observation))

    def guide(self, problem: Problem, observation: Tensor, actions: Actions) -> Placement:
        return Placement(device_of=actions[:, 0].astype(np.int32))


@dataclass(frozen=True, kw_only=True, eq=False)
class MlpPolicy(NetworkPolicy):
    configuration: MlpConfiguration
    family: ClassVar[str] = FAMILY
    configured_by: ClassVar[type[Any]] = MlpConfiguration

    def shapes(self) -> dict[str, tuple[int, ...]]:
        with torch.device("meta"):
            network = MlpNetwork(self.configuration)
        return {name: tuple(tensor.shape) for name, tensor in network.state_dict().items()}

    def check(self, problem: object) -> None:
        if self.placing(problem).machine.num_devices != self.configuration.num_devices:
            raise placewright.InputError(f"{self.called} is for {self.configuration.num_devices} devices")

    def observe(self, problem: Problem, seed: int) -> Tensor:
        return features(problem)

    def guide(self, problem: Problem, observation: Tensor, seed: int) -> Placement:
        network = MlpNetwork(self.configuration)
        network.load_state_dict({name: torch.tensor(array) for name, array in self.weights.items()})
        return network.guide(problem, observation, network.distribution(observation).choose(seed))


@dataclass(frozen=True, kw_only=True)
class MlpTraining(TrainingConfiguration):
    policy: MlpConfiguration

    @property
    def objective(self) -> Objective:
        return "step-time"

    def network(self) -> nn.Module:
        return MlpNetwork(self.policy)

    def environment(self, problem: Problem, number: int, split: Split) -> SimulatedPlacement:
        reference = one_device_objective(problem)
        return SimulatedPlacement(problem=problem, observation=features(problem), reference=reference)

    def trained_policy(self, name: str, weights: Weights, record: Mapping[str, Any]) -> MlpPolicy:
        return MlpPolicy(name=name, configuration=self.policy, weights=weights, record=record)


TRAINING = MlpTraining(
    policy=MlpConfiguration(),
    machine="2xp100",
    control="signal",
    steps=300,
    batch=4,
    samples=16,
    learning_rate=1e-2,
    checkpoint_interval=20,
    validation_interval=20,
)
placewright.register_policy_family(
    PolicyFamily(name=FAMILY, read=MlpPolicy.read, trainings=lambda: {"default": TRAINING})
)
