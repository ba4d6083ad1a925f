"""A compiler's rules as a solver."""

from __future__ import annotations

from dataclasses import dataclass

from placewright.lab.memory_levels.compilers import COMPILERS
from placewright.lab.memory_levels.problem import MemoryProblem
from placewright.lab.memory_levels.run import BestMap, MapResult
from placewright.search.run.search_run import SearchRun


@dataclass(frozen=True, kw_only=True)
class Compiler:
    """A rule of `compilers.py`, by its name."""

    name: str

    def solve(self, problem: MemoryProblem, run: SearchRun) -> MapResult:
        best = BestMap(problem, run, self.name)
        best.offer(COMPILERS[self.name](problem))
        return best.result("complete")
