"""Simulated annealing over chromosomes (Kirkpatrick, Gelatt & Vecchi 1983): BRKGA's keys and decoders under another
search."""

from __future__ import annotations

from dataclasses import dataclass

import placewright._core as _core
from placewright.decoder import DecoderName, check_decoder
from placewright.problem import Problem
from placewright.search.run.drive import drive, key_distributions
from placewright.search.run.result import Result, Solution
from placewright.search.run.search_run import SearchRun, settings_of
from placewright.support.errors import InputError

MAX_KEYS_PER_MOVE = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Annealing:
    """Simulated annealing. A move draws a few keys anew and is accepted by Metropolis' rule on the objective relative
    to the current one; with a memory limit, never when more bytes are over it. The initial keys and those of moves come
    from the guide where there is one.

    keys_per_move: number of keys that a move draws. first_temperature, last_temperature: relative to the objective;
    falls geometrically over the budget, with a time limit over the evaluations that it will reach at its speed so far.
    decoder: the meaning of keys (decoder.py).
    """

    name: str = "annealing"
    keys_per_move: int = 4
    first_temperature: float = 1e-2
    last_temperature: float = 1e-4
    decoder: DecoderName = "paper"

    def __post_init__(self) -> None:
        check_decoder(self.decoder)
        if not 1 <= self.keys_per_move <= MAX_KEYS_PER_MOVE:
            raise InputError(f"{self.keys_per_move} keys per move lie outside 1 to {MAX_KEYS_PER_MOVE:,}")
        if not 0 < self.last_temperature <= self.first_temperature < float("inf"):
            raise InputError(
                f"temperatures must be positive and fall, not from {self.first_temperature} to {self.last_temperature}"
            )

    def solve(self, problem: Problem, run: SearchRun) -> Result:
        """Solve as `Method.solve` does."""
        search = self._start(problem, run)
        reason = drive(run, search, self.name)
        device_of, order = search.best()
        solution = Solution(device_of=device_of, order=order)
        return run.result(problem, self.name, solution, stopped_because=reason, configuration=settings_of(self))

    def _start(self, problem: Problem, run: SearchRun) -> _core.Annealing:
        return _core.Annealing(
            problem=problem.core,
            seed=run.seed,
            keys_per_move=self.keys_per_move,
            first_temperature=self.first_temperature,
            last_temperature=self.last_temperature,
            decoder=self.decoder,
            **key_distributions(problem, run.guide, self.decoder),
        )
