"""The reward of the EGRL paper (Khadka et al., algorithm 1)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from placewright.lab.memory_levels.problem import Evaluations, MemoryProblem


def paper_rewards(problem: MemoryProblem, found: Evaluations, compiler_ps: int) -> NDArray[np.float64]:
    """Return the square of the speed-up over the compiler's map for maps that fit; for others, minus the share of bytes
    that the rectifier moved."""
    moved = found.moved_bytes / max(1, problem.core.total_bytes)
    return np.where(found.moved_bytes == 0, speedups(found, compiler_ps) ** 2, -moved)


def speedups(found: Evaluations, compiler_ps: int) -> NDArray[np.float64]:
    """Return speed-ups over the compiler's map; a map that takes no time counts as one of 1 ps, so that slower ones
    have less."""
    faster: NDArray[np.float64] = max(1, compiler_ps) / np.maximum(found.latency_ps, 1)
    return faster
