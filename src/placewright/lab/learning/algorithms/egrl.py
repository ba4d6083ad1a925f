"""EGRL (Khadka et al. 2021, algorithm 2): a population of graph policies and Boltzmann chromosomes evolves; a policy
gradient learns from all their actions, and migrates into it. The paper's EA and PG are one without the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from placewright.lab.learning.algorithms.evolution import (
    Evolution,
    Genome,
    Individual,
    population_state,
    restore_population,
)
from placewright.lab.learning.egrl.boltzmann import first_chromosome
from placewright.lab.learning.egrl.genome import GraphGenome
from placewright.lab.learning.egrl.replay import Replay
from placewright.lab.learning.egrl.settings import EvolutionSettings, GradientSettings, NetworkSettings
from placewright.lab.learning.environments.memory_map import MemoryMapEnvironment
from placewright.methods.policies import Weights

if TYPE_CHECKING:
    from placewright.lab.learning.algorithms.discrete_sac import DiscreteSac


class Egrl:
    """A learner of maps of one network, generation by generation.

    evolution: None for the policy gradient alone. gradient: None for chromosomes alone, which need no PyTorch. start:
    weights of a trained policy, from which the policy gradient and one of the population start.
    """

    def __init__(
        self,
        environment: MemoryMapEnvironment,
        seed: int,
        evolution: EvolutionSettings | None,
        gradient: GradientSettings | None,
        network: NetworkSettings,
        start: Weights | None = None,
    ) -> None:
        self.environment, self.network, self.random = environment, network, np.random.default_rng(seed)
        self.sac: DiscreteSac | None = None
        self.evolution: Evolution | None = None
        self._template: GraphGenome | None = None
        graphs: list[GraphGenome] = []
        if gradient is not None:
            graphs = self._start_gradient(gradient, seed, evolution, start)
        if evolution is not None:
            problem = environment.problem
            chromosomes = [
                first_chromosome(problem.num_ops, problem.num_levels, evolution.mode, self.random)
                for _ in range(evolution.population - len(graphs))
            ]
            genomes: list[Genome] = [*chromosomes, *graphs]
            self.evolution = Evolution(evolution, [Individual(genome=genome) for genome in genomes])

    def _start_gradient(
        self, gradient: GradientSettings, seed: int, evolution: EvolutionSettings | None, start: Weights | None
    ) -> list[GraphGenome]:
        """Make the graph policies of the first generation."""
        from placewright.lab.learning.algorithms.discrete_sac import DiscreteSac
        from placewright.lab.learning.egrl.network import NetworkActor, PolicyNetwork, torch_seed, weights_of
        from placewright.lab.learning.egrl.observation import NUM_FEATURES, observe

        problem = self.environment.problem
        observation, shape = observe(problem), (NUM_FEATURES, problem.num_levels, self.network)
        self.sac = DiscreteSac(observation, problem.num_levels, self.network, gradient, seed)
        self.replay = Replay(gradient.replay)
        if start is not None:
            self.sac.start_from(start)
        with torch_seed(seed + 1):
            made = [PolicyNetwork(*shape) for _ in range(evolution.num_graphs if evolution else 0)]
            actor = NetworkActor(PolicyNetwork(*shape), observation)
        self._template = GraphGenome(weights={}, actor=actor)
        graphs = [GraphGenome(weights=weights_of(each), actor=actor) for each in made]
        if start is not None and graphs:
            graphs[0] = GraphGenome(weights=start, actor=actor)
        return graphs

    def generation(self) -> None:
        """Run one generation, lines 5 to 32."""
        taken = 0
        if self.evolution is not None:
            outcomes = self.evolution.rollout(self.environment, self.random)
            if self.sac is not None:
                if outcomes is not None:
                    self.replay.add(outcomes)
                    taken = len(outcomes.rewards)
                if self.environment.is_over:
                    return
            self.evolution.next_generation(self.random)
        if self.sac is not None:
            taken += self._act(self.sac)
            self.sac.learn_for(taken, self.replay, self.random)
            if self.evolution is not None:
                self.evolution.replace_weakest(self._gradients_policy(self.sac))

    def _act(self, sac: DiscreteSac) -> int:
        """Evaluate a noisy decision and the likeliest, and add them to the replay; return the number of evaluated
        decisions."""
        outcomes = self.environment.step(np.stack([sac.explore(self.random), sac.exploit()]), "policy gradient")
        self.replay.add(outcomes)
        return len(outcomes.rewards)

    def _gradients_policy(self, sac: DiscreteSac) -> GraphGenome:
        assert self._template is not None
        return GraphGenome(weights=sac.weights(), actor=self._template.actor)

    def best_policy(self) -> GraphGenome | None:
        """Return the fittest policy of all generations; that of the policy gradient where there is no population."""
        if self.evolution is not None:
            return self.evolution.best_policy()
        return None if self.sac is None else self._gradients_policy(self.sac)

    def state(self) -> dict[str, Any]:
        """Return all that determines how the run continues."""
        state: dict[str, Any] = {"random": self.random.bit_generator.state}
        if self.sac is not None:
            state |= {"sac": self.sac.state(), "replay": self.replay.state()}
        if self.evolution is not None:
            state["population"] = population_state(self.evolution)
        return state

    def restore(self, state: dict[str, Any]) -> None:
        self.random.bit_generator.state = state["random"]
        if self.sac is not None:
            self.sac.restore(state["sac"])
            self.replay.restore(state["replay"])
        if self.evolution is not None:
            restore_population(self.evolution, state["population"], self._template)
