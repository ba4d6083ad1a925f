"""Bytes in use by level and op while a map is made tensor by tensor."""

from __future__ import annotations

import numpy as np

from placewright.memory_levels.problem import Levels, MemoryProblem


class Occupancy:
    """What is placed so far; tensors that are not placed take nothing."""

    def __init__(self, problem: MemoryProblem) -> None:
        self.problem = problem
        self.levels: Levels = problem.all_slowest()
        self._in_use = np.zeros((problem.num_levels, problem.num_ops), np.int64)
        self._capacity = [level.capacity_bytes for level in problem.chip.levels]

    def fits(self, tensor: int, level: int) -> bool:
        """Whether a tensor fits beside what is placed; the slowest level is never full."""
        problem = self.problem
        if level == problem.num_levels - 1:
            return True
        held = self._in_use[level, problem.first[tensor] : problem.last[tensor] + 1]
        return int(held.max()) + int(problem.size_bytes[tensor]) <= self._capacity[level]

    def place(self, tensor: int, level: int) -> None:
        """Counts a tensor, which was not placed before."""
        problem = self.problem
        self._in_use[level, problem.first[tensor] : problem.last[tensor] + 1] += problem.size_bytes[tensor]
        self.levels[tensor] = level

    def place_first_fitting(self, tensor: int, levels: range | tuple[int, ...]) -> None:
        """Places a tensor into the first of the levels that it fits into, else into the slowest."""
        fitting = (level for level in levels if self.fits(tensor, level))
        self.place(tensor, next(fitting, self.problem.num_levels - 1))
