"""Random maps, rectified: the least that a search must beat."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from placewright.lab.memory_levels.problem import MemoryProblem
from placewright.lab.memory_levels.run import BestMap, MapResult
from placewright.search.run.search_run import SearchRun

_BATCH = 256


@dataclass(frozen=True, kw_only=True)
class RandomMaps:
    """A solver that keeps the best of maps whose tensors all have a level drawn uniformly."""

    name: str = "random"

    def solve(self, problem: MemoryProblem, run: SearchRun) -> MapResult:
        best, generator = BestMap(problem, run, self.name), np.random.default_rng(run.seed)
        while True:
            count = min(_BATCH, max(1, run.evaluations_left))
            drawn = generator.integers(0, problem.num_levels, (count, problem.num_tensors), np.uint8)
            found = problem.evaluate(drawn, threads=run.threads)
            first = int(np.argmin(found.latency_ps))
            best.take(found.maps[first], int(found.latency_ps[first]), evaluations=count)
            if (reason := run.reason_to_stop()) is not None:
                return best.result(reason)
