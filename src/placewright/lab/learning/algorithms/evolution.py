"""The evolution of EGRL (Khadka et al. 2021, algorithm 2, lines 5 to 20). With Boltzmann chromosomes alone it is the EA
that the paper compares with.

Individuals are Boltzmann chromosomes or graph policies; the number of each kind stays constant. A child of a kind
descends from the winner of a tournament among that kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from placewright.lab.learning.egrl.boltzmann import Boltzmann, NodeLevels, crossed, mutated, one_hot
from placewright.lab.learning.egrl.genome import GraphGenome, crossed_rows, mutated_weights
from placewright.lab.learning.egrl.settings import EvolutionSettings
from placewright.lab.learning.environments.memory_map import MemoryMapEnvironment, Outcomes

#: A chromosome draws at most this often to propose something new.
_MOST_DRAWS = 20

Genome: TypeAlias = Boltzmann | GraphGenome


@dataclass(frozen=True, kw_only=True, eq=False)
class Individual:
    """A genome with its fitness. fitness: None until it is known. actions: the proposal whose reward is the fitness."""

    genome: Genome
    fitness: float | None = None
    actions: NodeLevels | None = None

    @property
    def rank(self) -> float:
        return -np.inf if self.fitness is None else self.fitness


class Evolution:
    """A population that evolves. population: the present generation; the first comes from the caller. known: rewards by
    proposal. fittest: the fittest graph policy of all generations, None before one has acted."""

    def __init__(self, settings: EvolutionSettings, population: Sequence[Individual]) -> None:
        self.settings, self.population = settings, list(population)
        self.known: dict[bytes, float] = {}
        self.fittest: Individual | None = None

    def rollout(self, environment: MemoryMapEnvironment, random: np.random.Generator) -> Outcomes | None:
        """Let every individual act; its reward is its fitness. In mode "fixed" individuals with known fitness do not
        act again, a graph policy that repeats a known proposal gets its reward without a new evaluation, and a
        chromosome's prior becomes its proposal. Returns the outcomes, None where nobody acted."""
        proposals = {
            index: self._proposal(each.genome, random)
            for index, each in enumerate(self.population)
            if each.fitness is None or self.settings.mode == "paper"
        }
        for index, actions in list(proposals.items()) if self.settings.mode == "fixed" else ():
            individual, reward = self.population[index], self.known.get(actions.tobytes())
            if isinstance(individual.genome, GraphGenome) and reward is not None:
                self.population[index] = self._paid(individual, reward, actions)
                del proposals[index]
        if not proposals:
            return None
        outcomes = environment.step(np.stack(list(proposals.values())), "population")
        for (index, actions), reward in zip(proposals.items(), outcomes.rewards.tolist(), strict=False):
            self.known[actions.tobytes()] = reward
            self.population[index] = self._paid(self.population[index], reward, actions)
        return outcomes

    def _proposal(self, genome: Genome, random: np.random.Generator) -> NodeLevels:
        """Return an individual's proposal. In mode "fixed" a chromosome draws until it proposes something new."""
        actions = act(genome, random)
        if self.settings.mode == "fixed" and isinstance(genome, Boltzmann):
            for _ in range(_MOST_DRAWS):
                if actions.tobytes() not in self.known:
                    break
                actions = act(genome, random)
        return actions

    def _paid(self, individual: Individual, reward: float, actions: NodeLevels) -> Individual:
        """Return the individual with its fitness. The new prior is the proposal, not the rectified map: so a tensor
        that did not fit can use room that another one leaves later."""
        genome = individual.genome
        if self.settings.mode == "fixed" and isinstance(genome, Boltzmann):
            genome = genome.with_prior(actions)
        paid = Individual(genome=genome, fitness=reward, actions=actions)
        if isinstance(genome, GraphGenome) and (self.fittest is None or reward >= self.fittest.rank):
            self.fittest = paid
        return paid

    def next_generation(self, random: np.random.Generator) -> None:
        """Make the next generation. Elites stay. Each other individual is the winner of a tournament, crossed with an
        elite, mutated, or both. Among equals the younger, who are at the end, come first: so elites can drift where
        many maps are equally fast."""
        youngest_first = self.population[::-1]
        ranked = sorted(youngest_first, key=lambda each: -each.rank)
        elites = ranked[: self.settings.num_elites]
        kinds = [type(each.genome) for each in ranked[self.settings.num_elites :]]
        self.population = elites + [self._child(ranked, elites, kind, random) for kind in kinds]

    def replace_weakest(self, genome: GraphGenome) -> None:
        """Replace the weakest graph policy (migration). Children, whose fitness is not known, are the weakest; the last
        of several is replaced, which is never an elite."""
        graphs = [i for i, each in enumerate(self.population) if isinstance(each.genome, GraphGenome)]
        if graphs:
            weakest = min(reversed(graphs), key=lambda index: self.population[index].rank)
            self.population[weakest] = Individual(genome=genome)

    def best_policy(self) -> GraphGenome | None:
        """Return the fittest graph policy of all generations; before one has acted, the first."""
        graphs = [each.genome for each in self.population if isinstance(each.genome, GraphGenome)]
        genome = next(iter(graphs), None) if self.fittest is None else self.fittest.genome
        assert genome is None or isinstance(genome, GraphGenome)
        return genome

    def _child(
        self, ranked: list[Individual], elites: list[Individual], kind: type[Genome], random: np.random.Generator
    ) -> Individual:
        of_kind = [each for each in ranked if isinstance(each.genome, kind)]
        # The list is ranked, so the first of those drawn wins.
        parent = of_kind[int(random.integers(0, len(of_kind), self.settings.tournament).min())]
        genome = parent.genome
        if random.random() < self.settings.crossover:
            genome = self._crossed(elites[int(random.integers(len(elites)))], genome, random)
        if random.random() < self.settings.mutation:
            genome = self._mutated(genome, random)
        if genome is parent.genome and isinstance(genome, GraphGenome):
            return parent
        return Individual(genome=genome)

    def _crossed(self, elite: Individual, genome: Genome, random: np.random.Generator) -> Genome:
        """Cross a genome with an elite's. Between kinds only a graph policy affects a chromosome: it becomes its
        prior."""
        if isinstance(elite.genome, Boltzmann):
            return crossed(elite.genome, genome, random) if isinstance(genome, Boltzmann) else genome
        if isinstance(genome, GraphGenome):
            return crossed_rows(elite.genome, genome, random)
        return seeded(genome, elite, self.settings)

    def _mutated(self, genome: Genome, random: np.random.Generator) -> Genome:
        if isinstance(genome, Boltzmann):
            return mutated(genome, self.settings, random)
        return mutated_weights(genome, random, all_arrays=self.settings.mode == "fixed")


def seeded(chromosome: Boltzmann, policy: Individual, settings: EvolutionSettings) -> Boltzmann:
    """Return the chromosome with the policy as its prior. paper: the policy's probabilities. fixed: the proposal it was
    rewarded for, if there is one, so that the chromosome searches around it."""
    assert isinstance(policy.genome, GraphGenome)
    if settings.mode == "fixed" and policy.actions is not None:
        return replace(chromosome, prior=one_hot(policy.actions, chromosome.prior.shape[-1]))
    return replace(chromosome, prior=policy.genome.probabilities())


def act(genome: Genome, random: np.random.Generator) -> NodeLevels:
    """Return actions: a chromosome draws, a graph policy chooses the likeliest."""
    return genome.draw(random) if isinstance(genome, Boltzmann) else genome.likeliest()


def population_state(evolution: Evolution) -> dict[str, Any]:
    """Return individuals and known rewards as dictionaries of arrays and numbers."""
    individuals = [_individual_state(each) for each in evolution.population]
    fittest = evolution.fittest
    return {
        "known": _known_state(evolution.known),
        "individuals": individuals,
        "fittest": None if fittest is None else _individual_state(fittest),
    }


def _individual_state(individual: Individual) -> dict[str, Any]:
    return {
        "kind": "boltzmann" if isinstance(individual.genome, Boltzmann) else "graph",
        "arrays": dict(individual.genome.arrays()),
        "fitness": individual.fitness,
        "actions": individual.actions,
    }


def _known_state(known: dict[bytes, float]) -> dict[str, Any] | None:
    """Return two arrays; thousands of small ones take seconds to write."""
    if not known:
        return None
    return {"proposed": np.stack([np.frombuffer(key, np.uint8) for key in known]), "rewards": list(known.values())}


def restore_population(evolution: Evolution, state: dict[str, Any], template: GraphGenome | None) -> None:
    """Restore individuals and known rewards. template: for the graph policies, whose network and observation are not in
    the state."""
    evolution.population = [_individual(each, template) for each in state["individuals"]]
    fittest = state.get("fittest")  # earlier versions did not write it
    evolution.fittest = None if fittest is None else _individual(fittest, template)
    evolution.known = {}
    if (known := state["known"]) is not None:
        evolution.known = dict(zip((key.tobytes() for key in known["proposed"]), known["rewards"], strict=True))


def _individual(state: dict[str, Any], template: GraphGenome | None) -> Individual:
    genome: Genome
    if state["kind"] == "boltzmann":
        genome = Boltzmann(prior=state["arrays"]["prior"], temperature=state["arrays"]["temperature"])
    else:
        assert template is not None
        genome = replace(template, weights=state["arrays"])
    return Individual(genome=genome, fitness=state["fitness"], actions=state["actions"])
