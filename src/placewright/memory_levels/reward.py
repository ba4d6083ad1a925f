"""The reward of the EGRL paper (Khadka et al., algorithm 1)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from placewright.memory_levels.problem import Evaluations, MemoryProblem
from placewright.support.errors import InputError


def paper_rewards(problem: MemoryProblem, found: Evaluations, compiler_ps: int) -> NDArray[np.float64]:
    """Of maps that fit the square of their speed-up over the compiler's map; of others minus the share of bytes that
    the rectifier moved."""
    if compiler_ps <= 0:
        raise InputError(f"the compiler's latency is {compiler_ps} ps; speed-ups need one above 0")
    speedup = compiler_ps / np.maximum(found.latency_ps, 1)
    moved = found.moved_bytes / max(1, problem.core.total_bytes)
    return np.where(found.moved_bytes == 0, speedup**2, -moved)
