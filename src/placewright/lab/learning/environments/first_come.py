"""Costs of many placements at once: each is scheduled first come, first served and simulated in the core."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

import placewright._core as _core
from placewright.problem import Problem
from placewright.search.run.result import Solution
from placewright.support.errors import InputError

#: The cost of a placement that does not run, the same in HDP's published code and, negated, in GDP.
FAILING_SIGNAL = 10.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Trials:
    """The costs of some placements, one number each.

    objective: ns or bytes; other: bytes or ns. bytes_over_limit: above 0 where the placement does not run. ratio: the
    objective as measured, noise included, over that of the reference; infinite where it does not run.
    """

    objective: NDArray[np.int64]
    other: NDArray[np.int64]
    bytes_over_limit: NDArray[np.int64]
    ratio: NDArray[np.float64]

    @property
    def runs(self) -> NDArray[np.bool_]:
        return np.isfinite(self.ratio)

    @property
    def cost(self) -> NDArray[np.float64]:
        """The square root of the ratio (Mirhoseini et al. 2017, section 3.1), or the failing signal."""
        return np.minimum(np.sqrt(self.ratio), FAILING_SIGNAL)

    def best(self) -> int:
        """Return the index of the best: fewest bytes over the limits, then the objective, then the other one."""
        return int(np.lexsort((self.other, self.objective, self.bytes_over_limit))[0])

    def fitness(self, row: int) -> tuple[int, int, int]:
        return int(self.bytes_over_limit[row]), int(self.objective[row]), int(self.other[row])


@dataclass(frozen=True, kw_only=True)
class Noise:
    """The noise of measurements, as on a shared cluster. deviation: of the logarithm of the time. failures: the share
    of placements that fail at random."""

    deviation: float = 0.0
    failures: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.deviation < 10:
            raise InputError(f"the deviation of noise is {self.deviation}; it must be from 0 to below 10")
        if not 0 <= self.failures < 1:
            raise InputError(f"the share of failures is {self.failures}; it must be from 0 to below 1")


class FirstComeEnvironment:
    """An environment in which ops start in the order in which they become ready on their device; tensors leave as soon
    as they are made and queue at the links, or, where transfers block, go together at barriers. Each placement costs
    one evaluation, in both transfer models and for every learner.

    threads: threads that simulate; they do not change the results. reference: costs are divided by it, in ns or bytes.
    is_simulated: True if the costs of a placement equal those of a simulation of its solution.
    """

    is_simulated = True

    def __init__(
        self, problem: Problem, *, threads: int = 1, noise: Noise | None = None, seed: int | Sequence[int] = 0
    ) -> None:
        self.problem, self.threads, self.noise = problem, threads, noise or Noise()
        self.reference = 1.0
        self._random = np.random.default_rng(seed)

    def measure(self, placements: NDArray[np.int32]) -> Trials:
        """Return the trials of placements, [count, num ops]."""
        rows = np.ascontiguousarray(placements, np.int32)
        return self.judged(*_core.measure_placements(self.problem.core, rows, self.threads))

    def judged(self, time: NDArray[np.int64], peak: NDArray[np.int64], over: NDArray[np.int64]) -> Trials:
        """Return step times, peaks and bytes over limits as trials."""
        objective, other = (time, peak) if self.problem.objective == "step-time" else (peak, time)
        return Trials(objective=objective, other=other, bytes_over_limit=over, ratio=self._ratio(objective, over))

    def solution(self, device_of: NDArray[np.int32]) -> Solution:
        """Return the placement with the order in which it was measured."""
        device_of = np.ascontiguousarray(device_of, np.int32)
        return Solution(device_of=device_of, order=_core.first_come_schedule(self.problem.core, device_of))

    def _ratio(self, objective: NDArray[np.int64], over: NDArray[np.int64]) -> NDArray[np.float64]:
        measured = objective / self.reference
        fails = over > 0
        if self.noise.deviation:
            measured = measured * np.exp(self._random.normal(0.0, self.noise.deviation, len(measured)))
        if self.noise.failures:
            fails = fails | (self._random.random(len(measured)) < self.noise.failures)
        return np.where(fails, np.inf, measured)


#: The step time of a solution in ns, as it was measured.
TimeOf: TypeAlias = Callable[[Problem, Solution], int]


class MeasuredEnvironment(FirstComeEnvironment):
    """An environment that orders ops as `FirstComeEnvironment` does and runs each placement, even a repeated one.
    Memory is simulated: a placement that does not fit is not run."""

    is_simulated = False

    def __init__(self, time_of: TimeOf, problem: Problem, **rest: Any) -> None:
        """Make the environment. rest: as FirstComeEnvironment takes it. Raises InputError where memory is the
        objective."""
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
