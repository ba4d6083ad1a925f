"""Large-neighbourhood search (Shaw 1998) with CP-SAT: windows of a schedule, solved one after another."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from placewright.lab.peers.cp_sat.best import LEAST_SECONDS, Best
from placewright.lab.peers.cp_sat.require import require_ortools
from placewright.lab.peers.cp_sat.structure import structure_of
from placewright.problem import Problem
from placewright.problem.objective import StopReason
from placewright.search.auto import Auto
from placewright.search.run.result import Result
from placewright.search.run.search_run import SearchRun, settings_of
from placewright.support.errors import InputError

#: Number of ops in a window: at first, least, most.
_SIZE, _LEAST, _MAX = 30, 10, 100


@dataclass(frozen=True, kw_only=True)
class CpWindows:
    """A search that runs `auto`, then CP-SAT on one window of its plan after another: the ops that start in a stretch
    of time are placed and ordered anew, all others stay. A window counts as one evaluation. It supports step time with
    overlapped transfers, without host threads; for other problems the plan of `auto` is returned unchanged, "complete".

    warm_share: of the budget, for `auto`.
    effort: of CP-SAT on one window, in its own deterministic measure, about seconds; windows grow or shrink so that
        most take less.
    total_effort: of all windows where the budget has no time limit.
    """

    name: str = "cp-windows"
    warm_share: float = 0.5
    effort: float = 0.1
    total_effort: float = 10.0

    def __post_init__(self) -> None:
        if not 0 < self.warm_share < 1:
            raise InputError(f"a share of {self.warm_share} for the start lies outside (0, 1)")
        if not all(0 < effort < float("inf") for effort in (self.effort, self.total_effort)):
            raise InputError(f"efforts of {self.effort} and {self.total_effort} are not positive numbers")

    def solve(self, problem: Problem, run: SearchRun) -> Result:
        """Solve as `Method.solve` does. Raises MissingExtraError without OR-tools."""
        require_ortools(self.name)
        warm = Auto().solve(problem, run.part(self.warm_share if _has_windows(problem) else 1.0, threads=1))
        best = Best(problem, run, warm, self.name)
        reason = warm.stopped_because
        if not _has_windows(problem):
            reason = "complete" if reason in ("evaluations", "time") else reason
        elif reason not in ("optimal", "infeasible", "interrupted") and best.metrics.bytes_over_limit == 0:
            reason = self._improve(best, problem, run)
        settings = settings_of(self)
        return run.result(problem, self.name, stopped_because=reason, configuration=settings, baselines=warm.baselines)

    def _improve(self, best: Best, problem: Problem, run: SearchRun) -> StopReason:
        """Solve windows until the budget is spent; return why it stopped."""
        from placewright.lab.peers.cp_sat.running import solve_window
        from placewright.lab.peers.cp_sat.timed import Timed
        from placewright.lab.peers.cp_sat.window import Window

        structure = structure_of(problem)
        timed, spent_effort, num_windows = Timed(structure, best.incumbent.solution), 0.0, 0
        sliding = _Sliding(structure.num_ops, run.seed)
        while True:
            reason = run.reason_to_stop()
            if reason != "interrupted" and run.budget.seconds is None and spent_effort >= self.total_effort:
                return "complete"
            if reason is not None:
                return reason
            left = None if run.seconds_left is None else max(LEAST_SECONDS, run.seconds_left)
            window = Window(timed, *next(sliding.windows))
            found = solve_window(window, effort=self.effort, seconds=left, seed=run.seed + num_windows)
            num_windows += 1
            spent_effort += found.effort
            run.spend(1)
            if found.solution is not None:
                changed = Timed(structure, found.solution)
                if changed.bytes_over_limit == 0 and changed.step_time_ns <= timed.step_time_ns:
                    timed = changed
                    run.offer(problem, changed.solution, self.name, evaluations=0)
            if found.is_optimal and len(window.inside) == structure.num_ops:
                return "complete"
            sliding.learn(found.is_optimal, found.effort / self.effort)


class _Sliding:
    """Windows from the first op to the last, each overlapping half of the one before, round after round."""

    def __init__(self, num_ops: int, seed: int) -> None:
        self._num_ops, self._size, self._random = num_ops, float(_SIZE), random.Random(seed)
        self.windows = self._windows()

    def _windows(self) -> Iterator[tuple[int, int]]:
        """Yield first position by start, and number of ops; later rounds cut at other places than the first."""
        first = 0
        while True:
            size = min(int(self._size), self._num_ops - first)
            yield first, size
            half = int(self._size) // 2
            first = first + half if first + size < self._num_ops else self._random.randrange(min(half, self._num_ops))

    def learn(self, is_optimal: bool, share: float) -> None:
        """Adapt the size. share: of the effort allowed, spent on the last window."""
        if not is_optimal:
            self._size = max(float(_LEAST), 0.92 * self._size)
        elif share < 1 / 3:
            self._size = min(float(_MAX), 1.05 * self._size)


def _has_windows(problem: Problem) -> bool:
    machine = problem.machine
    return (
        problem.objective == "step-time"
        and machine.transfer_model == "overlapped"
        and machine.num_devices > 1
        and not problem.core.has_hosts
        and len(problem.lowered.graph_op) > 1
    )
