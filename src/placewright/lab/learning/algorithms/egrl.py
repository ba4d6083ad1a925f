"""EGRL (Khadka et al. 2021, algorithm 2): a population of graph policies and Boltzmann chromosomes evolves, a policy
gradient learns from all that it does, and migrates into it."""

from __future__ import annotations

from typing import Any

import numpy as np

from placewright.lab.learning.algorithms.discrete_sac import DiscreteSac, act_and_remember
from placewright.lab.learning.algorithms.evolution import (
    Evolution,
    Genome,
    Individual,
    population_state,
    restore_population,
)
from placewright.lab.learning.egrl.boltzmann import first_chromosome
from placewright.lab.learning.egrl.genome import GraphGenome
from placewright.lab.learning.egrl.network import NetworkActor, PolicyNetwork, torch_seed, weights_of
from placewright.lab.learning.egrl.observation import NUM_FEATURES, observe
from placewright.lab.learning.egrl.replay import Replay
from placewright.lab.learning.egrl.settings import EvolutionSettings, GradientSettings, NetworkSettings
from placewright.lab.learning.environments.memory_map import MemoryMapEnvironment
from placewright.methods.policies import Weights


class Egrl:
    """start: weights of a trained policy, which the policy gradient and one of the population begin with."""

    def __init__(
        self,
        environment: MemoryMapEnvironment,
        evolution: EvolutionSettings,
        network: NetworkSettings,
        gradient: GradientSettings,
        seed: int,
        start: Weights | None = None,
    ) -> None:
        self.environment, self.network, self.random = environment, network, np.random.default_rng(seed)
        problem, observation = environment.problem, observe(environment.problem)
        self.sac = DiscreteSac(observation, problem.num_levels, network, gradient, seed)
        self.replay = Replay(gradient.replay)
        with torch_seed(seed + 1):
            made = [PolicyNetwork(NUM_FEATURES, problem.num_levels, network) for _ in range(_num_graphs(evolution))]
        actor = NetworkActor(PolicyNetwork(NUM_FEATURES, problem.num_levels, network), observation)
        self._template = GraphGenome(weights={}, actor=actor)
        if start is not None:
            self.sac.start_from(start)
        graphs = [GraphGenome(weights=weights_of(each), actor=actor) for each in made]
        if start is not None and graphs:
            graphs[0] = GraphGenome(weights=start, actor=actor)
        chromosomes = [
            first_chromosome(problem.num_ops, problem.num_levels, evolution.mode, self.random)
            for _ in range(evolution.num_boltzmann)
        ]
        genomes: list[Genome] = [*chromosomes, *graphs]
        self.evolution = Evolution(evolution, [Individual(genome=genome) for genome in genomes])

    def generation(self) -> None:
        """Lines 5 to 32."""
        taken = self._rollout()
        if self.environment.is_over:
            return
        self.evolution.next_generation(self.random)
        taken += act_and_remember(self.sac, self.environment, self.replay, self.random)
        self.sac.learn_for(taken, self.replay, self.random)
        self.evolution.replace_weakest(GraphGenome(weights=self.sac.weights(), actor=self._template.actor))

    def best_policy(self) -> GraphGenome | None:
        """The fittest of the population."""
        return self.evolution.best_policy()

    def state(self) -> dict[str, Any]:
        """All that decides how it goes on."""
        return {
            "random": self.random.bit_generator.state,
            "sac": self.sac.state(),
            "replay": self.replay.state(),
            "population": population_state(self.evolution),
        }

    def restore(self, state: dict[str, Any]) -> None:
        self.random.bit_generator.state = state["random"]
        self.sac.restore(state["sac"])
        self.replay.restore(state["replay"])
        restore_population(self.evolution, state["population"], self._template)

    def _rollout(self) -> int:
        """How many were evaluated; all of it is remembered."""
        outcomes = self.evolution.rollout(self.environment, self.random)
        if outcomes is None:
            return 0
        self.replay.add(outcomes)
        return len(outcomes.rewards)


def _num_graphs(settings: EvolutionSettings) -> int:
    return settings.population - settings.num_boltzmann
