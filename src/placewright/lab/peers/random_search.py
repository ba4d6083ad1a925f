"""Random search: every individual is drawn anew, and the best is kept."""

from __future__ import annotations

from dataclasses import dataclass

from placewright.decoder import DecoderName, check_decoder
from placewright.lab.peers.brkga import Brkga
from placewright.problem import Problem
from placewright.search.run.result import Result
from placewright.search.run.search_run import SearchRun

#: Individuals drawn between two checks of the best; the result's quality does not depend on it.
_POPULATION = 100


@dataclass(frozen=True, kw_only=True)
class RandomSearch:
    """Random search over chromosomes drawn from the guide (uniform without one), each decoded and simulated as in
    BRKGA.

    With a learned guide it is the paper's instance-dependent random search, "BRKGA for only one generation" (Paliwal et
    al. 2020, section 4). It runs as a BRKGA that keeps one elite and draws all others anew, so there is no crossover:
    after any number of generations the elite is the best of all drawn so far, as it would be in one generation of all
    evaluations, which would have to be in memory at once.

    decoder: the meaning of keys (decoder.py).
    """

    name: str = "random-search"
    decoder: DecoderName = "paper"

    def __post_init__(self) -> None:
        check_decoder(self.decoder)

    def solve(self, problem: Problem, run: SearchRun) -> Result:
        """Solve as `Method.solve` does."""
        search = Brkga(
            name=self.name,
            population=_POPULATION,
            elites=1,
            mutants=_POPULATION - 1,
            decoder=self.decoder,
        )
        # Without the run's initial solutions, which are not random draws.
        return search.solve(problem, run.part(guide=run.guide))
