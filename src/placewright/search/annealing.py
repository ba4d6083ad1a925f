"""Simulated annealing over chromosomes (Kirkpatrick, Gelatt & Vecchi 1983): what BRKGA's keys and decoders give another
search."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass

import placewright._core as _core
from placewright.decoder import DecoderName, check_decoder
from placewright.problem import Problem
from placewright.proposal import Proposal
from placewright.search.budget import Budget, Interrupted, OnProgress
from placewright.search.pausable import key_distributions, result_of, run
from placewright.search.result import Result, Solution
from placewright.support.errors import InputError

MAX_KEYS_PER_MOVE = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Annealing:
    """A move draws a few keys anew and is kept by Metropolis' rule on the objective relative to the current one; with a
    memory limit, never when more bytes are over it. Keys come from the proposal where there is one, at the start and in
    moves.

    keys_per_move: how many keys a move draws. first_temperature, last_temperature: relative to the objective; falls
    geometrically over the budget, with a time limit over the evaluations that it will reach at its speed so far.
    decoder: what the keys mean (decoder.py).
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

    def solve(
        self,
        problem: Problem,
        budget: Budget,
        seed: int,
        proposal: Proposal | None = None,
        *,
        on_progress: OnProgress | None = None,
        interrupted: Interrupted | None = None,
    ) -> Result:
        """As Method.solve."""
        began = time.perf_counter()
        search = self._start(problem, seed, proposal)
        ran = run(search, self.name, budget, began, on_progress, interrupted)
        device_of, order = problem.core.decode(search.best_keys(), self.decoder)
        solution = Solution(device_of=device_of, order=order)
        return result_of(self.name, asdict(self), problem, search, ran, solution, seed=seed, began=began)

    def _start(self, problem: Problem, seed: int, proposal: Proposal | None) -> _core.Annealing:
        return _core.Annealing(
            problem=problem.core,
            seed=seed,
            keys_per_move=self.keys_per_move,
            first_temperature=self.first_temperature,
            last_temperature=self.last_temperature,
            decoder=self.decoder,
            **key_distributions(problem, proposal, self.decoder),
        )
