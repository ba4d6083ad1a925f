"""What placements cost where they are run: each step time is measured, not simulated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

import placewright._core as _core
from placewright.lab.learning.environments.first_come import FirstComeEnvironment, Trials
from placewright.problem import Problem
from placewright.search.run.result import Solution
from placewright.support.errors import InputError

#: The step time of a solution in ns, as it was measured.
TimeOf: TypeAlias = Callable[[Problem, Solution], int]


class MeasuredEnvironment(FirstComeEnvironment):
    """Ops are ordered as `FirstComeEnvironment` orders them, and each placement is run, a repeated one again. Memory is
    simulated: what does not fit is not run."""

    is_simulated = False

    def __init__(self, time_of: TimeOf, problem: Problem, **rest: Any) -> None:
        """rest: as FirstComeEnvironment takes it. Raises InputError where memory is the objective."""
        super().__init__(problem, **rest)
        if problem.objective != "step-time":
            raise InputError(f"placements are measured for the step time, not for {problem.objective}")
        self._time_of = time_of

    def measure(self, placements: NDArray[np.int32]) -> Trials:
        rows = np.ascontiguousarray(placements, np.int32)
        time, peak, over = _core.measure_placements(self.problem.core, rows, self.threads)
        for row in np.flatnonzero(over == 0):
            time[row] = self._time_of(self.problem, self.solution(rows[row]))
        return self.judged(time, peak, over)
