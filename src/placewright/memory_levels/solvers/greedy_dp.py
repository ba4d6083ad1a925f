"""Greedy dynamic programming as the EGRL paper compares itself with it (Khadka et al., section 4, baselines)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from placewright.memory_levels.compilers import BASELINE, COMPILERS
from placewright.memory_levels.problem import MemoryProblem
from placewright.memory_levels.reward import paper_rewards
from placewright.memory_levels.run import BestMap, MapResult
from placewright.search.run.search_run import SearchRun


@dataclass(frozen=True, kw_only=True)
class GreedyDp:
    """Op by op all levels of its weights and of what it makes, keeping the pair of the highest reward; pass after pass.

    A pass costs as many evaluations as ops times pairs, 9 per op on three levels, whether or not the op has weights.
    It starts from the slowest level, sees rewards only, and stops early when a pass changes nothing.
    """

    name: str = "greedy-dp"

    def solve(self, problem: MemoryProblem, run: SearchRun) -> MapResult:
        best = BestMap(problem, run, self.name)
        compiler_ps = problem.evaluate_one(COMPILERS[BASELINE](problem))[0]
        pairs = np.array(list(product(range(problem.num_levels), repeat=2)), np.uint8)
        nodes = np.full((problem.num_ops, 2), problem.num_levels - 1, np.uint8)
        while True:
            before = nodes.copy()
            for op in range(problem.num_ops):
                count = min(len(pairs), max(1, run.evaluations_left))
                tried = np.repeat(nodes[None], count, axis=0)
                tried[:, op] = pairs[:count]
                found = problem.evaluate(problem.from_nodes(tried))
                rewards = paper_rewards(problem, found, compiler_ps)
                chosen = int(np.argmax(rewards))
                nodes[op] = pairs[chosen]
                if found.moved_bytes[chosen] == 0:
                    best.take(found.maps[chosen], int(found.latency_ps[chosen]), evaluations=count)
                else:
                    run.spend(count)
                if (reason := run.reason_to_stop()) is not None:
                    return self._ended(best, problem, reason)
            if np.array_equal(before, nodes):
                return self._ended(best, problem, "complete")

    @staticmethod
    def _ended(best: BestMap, problem: MemoryProblem, reason: object) -> MapResult:
        if best.levels is None:
            best.take(problem.all_slowest(), problem.evaluate_one(problem.all_slowest())[0])
        return best.result(reason)  # type: ignore[arg-type]
