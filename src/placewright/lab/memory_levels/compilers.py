"""Rules by which a compiler would map tensors; a map is compared with the fastest of them.

The native compiler of the NNP-I is not public. H6 is used in its place: activations use the SRAM, weights the LLC.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from placewright.lab.memory_levels.problem import Levels, MemoryProblem


class Occupancy:
    """The occupancy of levels while tensors are placed; tensors that are not placed take nothing."""

    def __init__(self, problem: MemoryProblem) -> None:
        self.problem = problem
        self.levels: Levels = problem.all_slowest()
        self._in_use = np.zeros((problem.num_levels, problem.num_ops), np.int64)
        self._capacity = [level.capacity_bytes for level in problem.chip.levels]

    def fits(self, tensor: int, level: int) -> bool:
        """True if a tensor fits together with the placed ones; the slowest level is never full."""
        problem = self.problem
        if level == problem.num_levels - 1:
            return True
        held = self._in_use[level, problem.first[tensor] : problem.last[tensor] + 1]
        return int(held.max()) + int(problem.size_bytes[tensor]) <= self._capacity[level]

    def place(self, tensor: int, level: int) -> None:
        """Place a tensor that was not placed before."""
        problem = self.problem
        self._in_use[level, problem.first[tensor] : problem.last[tensor] + 1] += problem.size_bytes[tensor]
        self.levels[tensor] = level

    def place_first_fitting(self, tensor: int, levels: range | tuple[int, ...]) -> None:
        """Place a tensor into the first of the levels that it fits into, else into the slowest."""
        fitting = (level for level in levels if self.fits(tensor, level))
        self.place(tensor, next(fitting, self.problem.num_levels - 1))


def in_order(problem: MemoryProblem) -> Levels:
    """H0: place tensors in order, each into the fastest level with room left."""
    occupancy = Occupancy(problem)
    for tensor in range(problem.num_tensors):
        occupancy.place_first_fitting(tensor, range(problem.num_levels))
    return occupancy.levels


def spilling(problem: MemoryProblem) -> Levels:
    """H1: place activations in order into the fastest level, then into the slower ones; then place weights in order,
    each into the first level with room, except the fastest."""
    occupancy = Occupancy(problem)
    for tensor in _of_role(problem, weights=False):
        occupancy.place_first_fitting(tensor, range(problem.num_levels))
    for tensor in _of_role(problem, weights=True):
        occupancy.place_first_fitting(tensor, range(min(1, problem.num_levels - 1), problem.num_levels))
    return occupancy.levels


def partitioned(problem: MemoryProblem) -> Levels:
    """H6: place activations in order into the fastest level, else into the slowest; then place weights in order into
    the levels between, except tables of which only some rows are looked up, else into the slowest."""
    occupancy = Occupancy(problem)
    for tensor in _of_role(problem, weights=False):
        occupancy.place_first_fitting(tensor, (0,))
    for tensor in _of_role(problem, weights=True):
        between = () if problem.is_table[tensor] else tuple(range(1, problem.num_levels - 1))
        occupancy.place_first_fitting(tensor, between)
    return occupancy.levels


def _of_role(problem: MemoryProblem, *, weights: bool) -> list[int]:
    return [int(tensor) for tensor in np.flatnonzero(problem.is_weight == weights)]


#: By the names that solvers and rows of the benchmark use.
COMPILERS: Mapping[str, Callable[[MemoryProblem], Levels]] = MappingProxyType(
    {"h0": in_order, "h1": spilling, "h6": partitioned}
)
#: The rule used in place of the native compiler, in rewards and in the rows of the benchmark.
BASELINE = "h6"
