"""The settings of the learners of memory maps: those of the paper, and those of a mode that corrects it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from placewright.support.errors import InputError

#: "paper": as in its text. "fixed": differences are described at each setting, and in docs/lab/memory-levels.md.
Mode = Literal["paper", "fixed"]


@dataclass(frozen=True, kw_only=True)
class EvolutionSettings:
    """The evolution of a population. A star marks what the paper leaves out and its authors' code defines.

    population
        Individuals of a generation.
    boltzmann_share
        The share of Boltzmann chromosomes; the others are graph policies.
    elite_share*
        The share of best individuals that stay unchanged.
    tournament*
        Number of individuals, the best of which becomes a parent.
    crossover, mutation*
        Probabilities that a child is crossed with an elite, and that it is changed.
    prior_noise, temperature_noise*
        Standard deviations of the noise on a chromosome's priors and temperatures.
    """

    population: int = 20
    boltzmann_share: float = 0.2
    elite_share: float = 0.1
    tournament: int = 3
    crossover: float = 0.3
    mutation: float = 0.85
    prior_noise: float = 0.1
    temperature_noise: float = 0.1
    mode: Mode = "fixed"

    def __post_init__(self) -> None:
        if self.mode not in get_args(Mode):
            raise InputError(f"there is no mode '{self.mode}' of learners; known are {' and '.join(get_args(Mode))}")
        if self.population < 2:
            raise InputError(f"a population of {self.population} cannot evolve; it must be at least 2")
        for name in ("boltzmann_share", "elite_share", "crossover", "mutation"):
            if not 0 <= (share := getattr(self, name)) <= 1:
                raise InputError(f"{name} is {share}; it must lie between 0 and 1")
        if self.tournament < 1:
            raise InputError(f"a tournament of {self.tournament} has no winner")

    @property
    def num_boltzmann(self) -> int:
        return round(self.population * self.boltzmann_share)

    @property
    def num_graphs(self) -> int:
        return self.population - self.num_boltzmann

    @property
    def num_elites(self) -> int:
        return max(1, round(self.population * self.elite_share))


@dataclass(frozen=True, kw_only=True)
class NetworkSettings:
    """The shape of the Graph U-Net, as in the paper's table 2. It does not say how a critic pools its nodes; the
    authors' code uses the maximum."""

    width: int = 128
    depth: int = 4
    heads: int = 4
    critic_pooling: Literal["max", "mean"] = "max"

    def __post_init__(self) -> None:
        if not (1 <= self.heads <= self.width <= 4096 and self.width % self.heads == 0 and 0 <= self.depth <= 16):
            raise InputError(
                f"a Graph U-Net of width {self.width}, depth {self.depth} and {self.heads} heads cannot be; the width "
                "must be at most 4096 and a multiple of the heads, the depth from 0 to 16"
            )


@dataclass(frozen=True, kw_only=True)
class GradientSettings:
    """The policy gradient's settings: table 2 of the paper. The noise of actions and its clip, and the largest gradient
    norm, are those of the authors' code.

    discount
        Discount of the critic's target. An episode has one step, so mode "fixed" uses none.
    gradient_steps
        Gradient steps per evaluation. The fraction of a step that is left after a generation is kept for the next.
    """

    replay: int = 100_000
    batch: int = 24
    actor_rate: float = 1e-3
    critic_rate: float = 1e-3
    discount: float = 0.99
    entropy: float = 0.05
    tau: float = 1e-3
    reward_scale: float = 5.0
    noise: float = 0.2
    noise_clip: float = 0.5
    max_grad_norm: float = 5.0
    gradient_steps: float = 1.0
    mode: Mode = "fixed"

    def __post_init__(self) -> None:
        if self.batch < 1 or self.replay < self.batch:
            raise InputError(f"batches of {self.batch} cannot be drawn from a replay of {self.replay}")
        if self.gradient_steps < 0:
            raise InputError(f"gradient_steps is {self.gradient_steps}; it must be at least 0")


def evolution_settings(mode: Mode, *, only_chromosomes: bool = False) -> EvolutionSettings:
    """Return the settings of a mode. fixed: half of the population are chromosomes, the most that the paper tried, and
    temperatures change more."""
    share = 1.0 if only_chromosomes else 0.2 if mode == "paper" else 0.5
    noise = 0.1 if mode == "paper" else 0.5
    return EvolutionSettings(boltzmann_share=share, temperature_noise=noise, mode=mode)


def network_settings(mode: Mode) -> NetworkSettings:
    """Return the settings of a mode. fixed: the critic uses the mean of the nodes, since latency is a sum over ops."""
    return NetworkSettings(critic_pooling="max" if mode == "paper" else "mean")
