"""GDP (Zhou et al., GDP: Generalized Device Placement for Dataflow Graphs, 2020)."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from placewright.lab.learning.environments.first_come import Trials
from placewright.lab.learning.gdp.observation import Observation
from placewright.lab.learning.gdp.policy import GdpPolicy
from placewright.lab.learning.gdp.settings import PAPER_NETWORK, SAMPLES, GdpConfiguration, NetworkSettings
from placewright.lab.learning.placers.placer import Learn, NetworkPlacer, Task
from placewright.problem import Problem
from placewright.search.run.result import Result
from placewright.search.run.search_run import SearchRun, settings_of
from placewright.support.errors import InputError
from placewright.support.quantities import format_bytes

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from placewright.lab.learning.gdp.network import GraphPolicy
    from placewright.lab.learning.placers.placement_policy import PlacementPolicy


_FLOAT_BYTES = 4
#: Rows of `width` numbers that are kept for gradients, counted in network.py: per unit in a round of GraphSAGE, per
#: edge there, per unit in a layer of the placer without the widened part.
_IN_ROUND, _OF_EDGE, _IN_LAYER = 7, 2, 12


def learning_bytes(settings: NetworkSettings, num_units: int, num_edges: int) -> int:
    """Return about how many bytes are kept between the forward and the backward pass."""
    of_unit = settings.rounds * _IN_ROUND + settings.layers * (_IN_LAYER + 3 * settings.widening)
    of_unit += 2 * (1 + settings.widening)
    rows = num_units * of_unit + num_edges * settings.rounds * _OF_EDGE
    return _FLOAT_BYTES * settings.width * rows


def check_memory(solver: str, settings: NetworkSettings, observation: Observation, host_bytes: int) -> None:
    """Raise InputError where the host has less memory than learning takes."""
    units = observation.units.count
    needed = learning_bytes(settings, units, observation.edges.shape[1])
    if needed > host_bytes:
        raise InputError(
            f"solver '{solver}' needs some {format_bytes(needed)} to place {units:,} ops, and this host has "
            f"{format_bytes(host_bytes)}; a smaller network or colocation rules take less"
        )


def host_memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@dataclass(frozen=True, kw_only=True)
class Gdp(NetworkPlacer):
    """A placer whose network chooses the devices of all ops of a graph at once, and learns by PPO. With a policy it
    starts from that policy's network: the first placements are the policy's, later steps fine-tune it.

    samples: of one step, in addition to the likeliest placement, from which nothing is learned. baseline: compares a
    placement with those of its step, in their standard deviations, or with all tried before, as in the paper. entropy:
    weight of a nat, falling to 0 over `placements`. The other numbers are as in `Ppo`.
    """

    name: str = "gdp"
    colocation: tuple[str, ...] = ()
    network: NetworkSettings = field(default_factory=NetworkSettings)
    policy: GdpPolicy | None = None
    samples: int = SAMPLES
    epochs: int = 4
    clip: float = 0.2
    entropy: float = 0.01
    placements: int = 2400
    baseline: Literal["step", "all before"] = "step"

    def __post_init__(self) -> None:
        if self.samples < 2:
            raise InputError(f"samples is {self.samples}; it must be at least 2")
        if self.entropy < 0:
            raise InputError(f"entropy is {self.entropy}; it must be at least 0")

    def with_policy(self, policy: GdpPolicy) -> Gdp:
        """Return this placer with the policy, and its colocation, network sizes and noise."""
        configuration = policy.configuration
        return replace(
            self,
            policy=policy,
            network=configuration.network,
            colocation=configuration.colocation,
            shared_noise=configuration.shared_noise,
        )

    def zero_shot_evaluations(self, problem: Problem) -> int:
        """Return the number of evaluations of the policy's own answers: each device alone, the likeliest placement and
        one step's."""
        return problem.machine.num_devices + 1 + self.samples

    @property
    def settings(self) -> dict[str, Any]:
        title = None if self.policy is None else self.policy.title
        return {**settings_of(replace(self, policy=None)), "policy": title}

    def solve(self, problem: Problem, run: SearchRun) -> Result:
        """Solve as `Method.solve` does. Raises InputError where the policy is not for the problem."""
        if self.policy is not None:
            self.policy.check(problem)
        return super().solve(problem, run)

    def policy_of(self, task: Task) -> GraphPolicy:
        """Return a policy for the graph, with the given policy's weights, otherwise with new ones."""
        from placewright.lab.learning.gdp.network import GdpNetwork, GraphPolicy, network_with
        from placewright.lab.learning.gdp.observation import observe

        configuration = GdpConfiguration(
            num_devices=task.problem.machine.num_devices,
            objective=task.problem.objective,
            colocation=self.colocation,
            network=self.network,
            shared_noise=self.shared_noise,
        )
        observation = observe(task.problem, task.units)
        check_memory(self.name, self.network, observation, host_memory_bytes())
        known = self.policy
        network = GdpNetwork(configuration) if known is None else network_with(configuration, known.weights)
        return GraphPolicy(network, observation)

    def draw(self, policy: GraphPolicy, step: int, generator: torch.Generator) -> Tensor:
        return policy.sample_beside_greedy(self.samples, generator)

    def learner(self, policy: PlacementPolicy) -> Learn:
        from placewright.lab.learning.algorithms.ppo import Ppo

        ppo = Ppo(
            policy,
            learning_rate=self.learning_rate,
            clip=self.clip,
            epochs=self.epochs,
            max_grad_norm=self.max_grad_norm,
        )
        costs = list[NDArray[np.float64]]()

        def learn(devices: Tensor, trials: Trials) -> None:
            ppo.entropy = self.entropy * max(0.0, 1 - len(costs) * self.samples / self.placements)
            costs.append(trials.cost[1:])
            ppo.step(devices[1:], self._advantage(costs))

        return learn

    def _advantage(self, costs: list[NDArray[np.float64]]) -> NDArray[np.float64]:
        """Return the advantages of the last placements. costs: of each step."""
        from placewright.lab.learning.algorithms.ppo import standard_advantage

        if self.baseline == "step":
            return standard_advantage(costs[-1])
        return np.concatenate(costs[:-1] or costs).mean() - costs[-1]


GDP_PAPER = Gdp(name="gdp-paper", network=PAPER_NETWORK, learning_rate=3e-4, baseline="all before", shared_noise=0.0)
