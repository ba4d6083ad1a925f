"""Local search that uses latencies only, helped by the rectifier."""

from __future__ import annotations

from dataclasses import dataclass

import placewright._core as _core
from placewright.lab.memory_levels.compilers import COMPILERS
from placewright.lab.memory_levels.problem import MemoryProblem
from placewright.lab.memory_levels.run import BestMap, MapResult
from placewright.search.run.drive import drive
from placewright.search.run.search_run import SearchRun, settings_of
from placewright.support.errors import InputError

#: A start other than a compiler's map: every tensor in the slowest level.
SLOWEST = "slowest"


@dataclass(frozen=True, kw_only=True)
class LevelLocalSearch:
    """A search in which one to `most_flips` tensors get another level; the rectified map is kept unless it is slower.

    start: "slowest", or the name of a compiler.
    """

    name: str = "local-search"
    start: str = SLOWEST
    most_flips: int = 3

    def __post_init__(self) -> None:
        if self.start != SLOWEST and self.start not in COMPILERS:
            raise InputError(f"a local search starts from '{SLOWEST}' or a compiler's map, not from '{self.start}'")
        if self.most_flips < 1:
            raise InputError(f"a local search that changes {self.most_flips} tensors changes nothing")

    def solve(self, problem: MemoryProblem, run: SearchRun) -> MapResult:
        best = BestMap(problem, run, self.name)
        start = problem.all_slowest() if self.start == SLOWEST else COMPILERS[self.start](problem)
        search = _core.LevelLocalSearch(problem=problem.core, start=start, most_flips=self.most_flips, seed=run.seed)
        reason = drive(run, search, self.name)
        best.take(search.best(), search.best_objective)
        return best.result(reason, configuration=settings_of(self))
