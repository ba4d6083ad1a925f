"""Rules by which a compiler would map tensors: the fastest of them is what a map is compared with.

The native compiler of the NNP-I is not public. H6 stands for it: activations have the SRAM, weights have the LLC.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from placewright.memory_levels.occupancy import Occupancy
from placewright.memory_levels.problem import Levels, MemoryProblem


def in_order(problem: MemoryProblem) -> Levels:
    """H0: tensor by tensor in order, each into the fastest level that it fits into beside those before it."""
    occupancy = Occupancy(problem)
    for tensor in range(problem.num_tensors):
        occupancy.place_first_fitting(tensor, range(problem.num_levels))
    return occupancy.levels


def spilling(problem: MemoryProblem) -> Levels:
    """H1: activations in order into the fastest level, then into the slower ones; then weights in order into whatever
    level but the fastest has room for them."""
    occupancy = Occupancy(problem)
    for tensor in _of_role(problem, weights=False):
        occupancy.place_first_fitting(tensor, range(problem.num_levels))
    for tensor in _of_role(problem, weights=True):
        occupancy.place_first_fitting(tensor, range(min(1, problem.num_levels - 1), problem.num_levels))
    return occupancy.levels


def partitioned(problem: MemoryProblem) -> Levels:
    """H6: activations in order into the fastest level, else into the slowest; then weights in order into the levels
    between, but for tables of which only some rows are looked up, else into the slowest."""
    occupancy = Occupancy(problem)
    for tensor in _of_role(problem, weights=False):
        occupancy.place_first_fitting(tensor, (0,))
    for tensor in _of_role(problem, weights=True):
        between = () if problem.is_table[tensor] else tuple(range(1, problem.num_levels - 1))
        occupancy.place_first_fitting(tensor, between)
    return occupancy.levels


def _of_role(problem: MemoryProblem, *, weights: bool) -> list[int]:
    return [int(tensor) for tensor in np.flatnonzero(problem.is_weight == weights)]


#: By the names under which solvers and rows of the benchmark know them.
COMPILERS: Mapping[str, Callable[[MemoryProblem], Levels]] = MappingProxyType(
    {"h0": in_order, "h1": spilling, "h6": partitioned}
)
#: The one that stands for the native compiler, in rewards and in the rows of the benchmark.
BASELINE = "h6"
