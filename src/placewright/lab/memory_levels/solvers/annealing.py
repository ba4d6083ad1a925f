"""Annealing of maps that fit, by moves whose cost is found from the few ops that they touch."""

from __future__ import annotations

from dataclasses import dataclass

import placewright._core as _core
from placewright.lab.memory_levels.problem import MemoryProblem
from placewright.lab.memory_levels.run import BestMap, MapResult
from placewright.lab.memory_levels.solvers.greedy import density_map
from placewright.problem.objective import StopReason
from placewright.search.run.drive import drive
from placewright.search.run.search_run import SearchRun, settings_of
from placewright.support.errors import InputError

#: Between the seeds of two rounds, so that runs with neighbouring seeds share none.
_SEEDS_APART = 2**32


def moves_per_second(problem: MemoryProblem) -> int:
    """Return about how many moves are scored in a second: each takes a few ops, or all where prefetching couples
    them."""
    if problem.chip.has_prefetch:
        return max(1000, 8_000_000 // problem.num_ops)
    return max(1000, 1_000_000_000 // (500 + problem.num_ops))


@dataclass(frozen=True, kw_only=True)
class LevelAnnealing:
    """Annealing that moves a tensor to another level; where that is full, others make room. It starts from the density
    greedy.

    rounds: number of coolings, each from the best so far; one round alone is sometimes caught 2% above the optimum
    of ResNet-101. Temperatures are relative to the latency of the start.
    """

    name: str = "annealing"
    rounds: int = 4
    first_temperature: float = 3e-3
    last_temperature: float = 1e-5

    def __post_init__(self) -> None:
        if not 0 < self.last_temperature <= self.first_temperature < float("inf"):
            raise InputError("temperatures of an annealing must be positive and must not rise")
        if self.rounds < 1:
            raise InputError(f"an annealing of {self.rounds} rounds never begins: at least 1 is needed")

    def solve(self, problem: MemoryProblem, run: SearchRun) -> MapResult:
        best = BestMap(problem, run, self.name)
        start = density_map(problem)
        reason: StopReason = "complete"
        for number in range(self.rounds):
            part = run.part(1 / (self.rounds - number), seed=(run.seed + number * _SEEDS_APART) % 2**64)
            search = _core.LevelAnnealing(
                problem=problem.core,
                start=start if best.levels is None else best.levels,
                first_temperature=self.first_temperature,
                last_temperature=self.last_temperature,
                seed=part.seed,
            )
            drive(part, search, self.name, first_batch=256)
            best.take(search.best(), search.best_objective)
            if (stopped := run.reason_to_stop()) is not None:
                reason = stopped
                break
        return best.result(reason, configuration=settings_of(self))
