"""The reward of a map of tensors to memory levels (EGRL, algorithm 1): one decision, one reward."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from placewright.lab.memory_levels.compilers import BASELINE, COMPILERS
from placewright.lab.memory_levels.problem import Levels, MemoryProblem
from placewright.lab.memory_levels.reward import paper_rewards, speedups
from placewright.lab.memory_levels.run import BestMap
from placewright.search.run.result import TracePoint
from placewright.search.run.search_run import SearchRun

NodeLevels = NDArray[np.uint8]


@dataclass(frozen=True, kw_only=True, eq=False)
class Outcomes:
    """The outcomes of actions. rewards: float64 [maps]. executed: the maps with these rewards, uint8 [maps, ops, 2]."""

    rewards: NDArray[np.float64]
    executed: NodeLevels


class MemoryMapEnvironment:
    """An environment with the paper's actions: uint8 [ops, 2], the level of each op's weights and of its result.

    The reward of a map that fits is the square of its speed-up over the compiler's. For another map it is minus the
    share of bytes that the rectifier moved; or with `rectifies`, the reward of the rectified map, which is executed in
    its place. Each map counts as one evaluation of the run, and the best that was executed is kept.
    """

    def __init__(self, problem: MemoryProblem, run: SearchRun, solver: str, *, rectifies: bool) -> None:
        self.problem, self.run, self.rectifies = problem, run, rectifies
        self.best = BestMap(problem, run, solver)
        self.compiler_ps = problem.evaluate_one(COMPILERS[BASELINE](problem))[0]
        self._places = np.stack([problem.node, np.where(problem.is_weight, 0, 1)])

    @property
    def is_over(self) -> bool:
        return self.run.reason_to_stop() is not None

    def step(self, actions: NodeLevels, found_by: str | None = None) -> Outcomes:
        """Return the outcomes of the actions, uint8 [maps, ops, 2]; only of the first ones where the budget ends."""
        actions = actions[: max(1, self.run.evaluations_left)]
        found = self.problem.evaluate(self.problem.from_nodes(actions), threads=self.run.threads)
        fits = found.moved_bytes == 0
        rewards = paper_rewards(self.problem, found, self.compiler_ps)
        if self.rectifies:
            fits[:] = True
            rewards = speedups(found, self.compiler_ps) ** 2
            actions = self.to_nodes(found.maps, actions)
        if fits.any():
            fastest = int(np.where(fits, found.latency_ps, np.iinfo(np.int64).max).argmin())
            latency = int(found.latency_ps[fastest])
            self.best.take(found.maps[fastest], latency, found_by, evaluations=len(actions))
        else:
            self.run.spend(len(actions))
        return Outcomes(rewards=rewards, executed=actions)

    def state(self) -> dict[str, Any]:
        """Return what the run has spent and found."""
        best, run = self.best, self.run
        return {
            "levels": best.levels,
            "latency_ps": best.latency_ps,
            "found_by": best.found_by,
            "evaluations": run.evaluations,
            "trace": [[point.evaluations, point.seconds, point.best] for point in run.trace],
        }

    def restore(self, state: dict[str, Any]) -> None:
        best, run = self.best, self.run
        best.levels, best.latency_ps, best.found_by = state["levels"], state["latency_ps"], state["found_by"]
        run.spend(state["evaluations"])
        for evaluations, seconds, value in state["trace"]:
            run.trace.append(TracePoint(evaluations=evaluations, seconds=seconds, best=value, bytes_over_limit=0))

    def to_nodes(self, maps: Levels, proposed: NodeLevels) -> NodeLevels:
        """Return maps as actions; an op without such a tensor keeps its proposal, and the last of several tensors
        decides."""
        nodes = proposed.copy()
        op, role = self._places
        nodes[:, op, role] = maps
        return nodes

    def speedup(self, reward: float) -> float:
        """Return the speed-up that a reward means; 0 for a map that does not fit."""
        return float(np.sqrt(max(0.0, reward)))
