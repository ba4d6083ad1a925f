"""Greedy maps: two solvers that know the model, by savings per byte or per move; and the EGRL paper's baseline, op by
op (Khadka et al., section 4, baselines)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

import placewright._core as _core
from placewright.lab.memory_levels.compilers import BASELINE, COMPILERS, Occupancy
from placewright.lab.memory_levels.problem import Levels, MemoryProblem
from placewright.lab.memory_levels.reward import paper_rewards
from placewright.lab.memory_levels.run import BestMap, MapResult
from placewright.search.run.search_run import SearchRun


@dataclass(frozen=True, kw_only=True)
class DensityGreedy:
    """A solver that moves every tensor alone from the slowest level to the fastest that could hold it, to measure the
    time saved; then, in order of time saved per byte and op during which the byte is taken, each goes to the fastest
    level that has room for it."""

    name: str = "density"

    def solve(self, problem: MemoryProblem, run: SearchRun) -> MapResult:
        best = BestMap(problem, run, self.name)
        best.offer(density_map(problem), evaluations=problem.num_tensors * (problem.num_levels - 1) + 1)
        return best.result("complete")


def density_map(problem: MemoryProblem) -> Levels:
    """Return the map of `DensityGreedy`."""
    saved = _core.level_savings(problem.core, problem.all_slowest()).reshape(problem.num_tensors, problem.num_levels)
    capacity = np.array([level.capacity_bytes for level in problem.chip.levels])
    fastest = np.argmax(problem.size_bytes[:, None] <= capacity[None], axis=1)
    taken = problem.size_bytes * (problem.last - problem.first + 1)
    occupancy = Occupancy(problem)
    worth = saved[np.arange(problem.num_tensors), fastest] / taken
    for tensor in np.argsort(-worth, kind="stable").tolist():
        occupancy.place_first_fitting(tensor, range(problem.num_levels))
    return occupancy.levels


@dataclass(frozen=True, kw_only=True)
class MarginalGreedy:
    """A solver that starts from the slowest level and repeats the move of one tensor that saves the most; with
    `per_byte`, the most per byte and op during which the byte is taken."""

    name: str = "marginal"
    per_byte: bool = False

    def solve(self, problem: MemoryProblem, run: SearchRun) -> MapResult:
        best = BestMap(problem, run, self.name)
        levels, spent = _core.steepest_descent(
            problem.core, problem.all_slowest(), self.per_byte, max(1, run.evaluations_left)
        )
        best.offer(levels, evaluations=max(1, spent))
        return best.result(run.reason_to_stop() or "complete", configuration={"per_byte": self.per_byte})


@dataclass(frozen=True, kw_only=True)
class GreedyDp:
    """A solver that tries, op by op, all levels of the op's weights and results and keeps the pair with the highest
    reward; pass after pass.

    A pass costs as many evaluations as ops times pairs, 9 per op on three levels, whether or not the op has weights. It
    starts from the slowest level, sees rewards only, and stops early when a pass changes nothing.
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
