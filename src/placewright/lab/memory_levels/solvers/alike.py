"""A solver that maps similar layers of a network alike, as offloading policies do (Sheng et al., FlexGen, 2023)."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from itertools import combinations, product
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from placewright.lab.memory_levels.problem import Levels, MemoryProblem
from placewright.lab.memory_levels.run import BestMap, MapResult
from placewright.search.run.search_run import SearchRun

#: Tensors that share one level.
Group: TypeAlias = NDArray[np.intp]
#: Pairs are moved among this many of the largest groups.
_PAIRED = 12


@dataclass(frozen=True, kw_only=True)
class Alike:
    """A search over groups of tensors whose names differ only in numbers: each group changes its level together, alone
    or with another group, as long as that saves something.

    It starts with everything in each of the levels. What does not fit is rectified, and moves up again when others
    leave.
    """

    name: str = "alike"

    def solve(self, problem: MemoryProblem, run: SearchRun) -> MapResult:
        best, moves = BestMap(problem, run, self.name), _moves(_groups(problem))
        for level in range(problem.num_levels):
            levels = np.full(problem.num_tensors, level, np.uint8)
            latency = best.offer(levels)
            is_better = True
            while is_better and run.reason_to_stop() is None:
                before = latency
                for groups in moves:
                    levels, latency = _moved(best, levels, latency, groups)
                    if run.reason_to_stop() is not None:
                        break
                is_better = latency < before
        return best.result(run.reason_to_stop() or "complete")


def _moves(groups: list[Group]) -> list[tuple[Group, ...]]:
    """Return each group, then pairs of the largest."""
    return [*((group,) for group in groups), *combinations(groups[:_PAIRED], 2)]


def _moved(best: BestMap, levels: Levels, latency: int, groups: tuple[Group, ...]) -> tuple[Levels, int]:
    """Return the best map with each of the groups in another level, if that is an improvement; else the map as it
    was."""
    problem = best.problem
    others = [[level for level in range(problem.num_levels) if level != levels[group[0]]] for group in groups]
    choices = list(product(*others))[: max(0, best.run.evaluations_left)]
    if not choices:
        return levels, latency
    maps = np.repeat(levels[None], len(choices), axis=0)
    for row, choice in zip(maps, choices, strict=True):
        for group, level in zip(groups, choice, strict=True):
            row[group] = level
    found = problem.evaluate(maps)
    least = int(found.latency_ps.argmin())
    best.take(found.maps[least], int(found.latency_ps[least]), evaluations=len(choices))
    is_better = found.latency_ps[least] < latency
    return (maps[least], int(found.latency_ps[least])) if is_better else (levels, latency)


def _groups(problem: MemoryProblem) -> list[Group]:
    """Group tensors by name without its numbers, the groups with the most bytes first."""
    members: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
    for tensor, name in enumerate(problem.tensor_names):
        members[re.sub(r"\d+", "", name), int(problem.is_weight[tensor])].append(tensor)
    groups = [np.array(tensors) for tensors in members.values()]
    return sorted(groups, key=lambda group: -int(problem.size_bytes[group].sum()))
