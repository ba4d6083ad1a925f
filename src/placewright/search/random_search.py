"""Random search: every individual is drawn anew, and the best is kept."""

from __future__ import annotations

from dataclasses import dataclass

from placewright.decoder import DecoderName, check_decoder
from placewright.problem import Problem
from placewright.proposal import Proposal
from placewright.search.brkga import Brkga
from placewright.search.budget import Budget, Interrupted, OnProgress
from placewright.search.result import Result

#: Individuals drawn between two looks at the best; the result's quality does not depend on it.
_POPULATION = 100


@dataclass(frozen=True, kw_only=True)
class RandomSearch:
    """Chromosomes drawn from the proposal, uniform without one, each decoded and simulated as in BRKGA.

    With a learned proposal it is the paper's instance-dependent random search, "BRKGA for only one generation"
    (Paliwal et al. 2020, section 4). It runs as a BRKGA that keeps one elite and draws all others anew, so nothing is
    ever crossed: after any number of generations the elite is the best of all drawn so far, as it would be in one
    generation of all evaluations, which would have to be held at once.

    decoder: what the keys mean (decoder.py). threads: that evaluate; the result does not depend on it.
    """

    name: str = "random-search"
    decoder: DecoderName = "paper"
    threads: int = 1

    def __post_init__(self) -> None:
        check_decoder(self.decoder)

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
        search = Brkga(
            name=self.name,
            population=_POPULATION,
            elites=1,
            mutants=_POPULATION - 1,
            decoder=self.decoder,
            threads=self.threads,
        )
        return search.solve(problem, budget, seed, proposal, on_progress=on_progress, interrupted=interrupted)
