"""Large-neighbourhood search (Shaw 1998) with CP-SAT: windows of a schedule, solved one after another."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace

from placewright.problem import Problem
from placewright.proposal import Proposal
from placewright.search.auto import Auto
from placewright.search.budget import Budget, Interrupted, OnProgress
from placewright.search.cp_sat.best import Best
from placewright.search.cp_sat.require import require_ortools
from placewright.search.cp_sat.structure import structure_of
from placewright.search.result import Result
from placewright.support.errors import InputError

#: Ops in a window: at first, at least, at most.
_SIZE, _LEAST, _MOST = 30, 10, 100


@dataclass(frozen=True, kw_only=True)
class CpWindows:
    """`auto`, then CP-SAT on one window of its plan after another: the ops that start in a stretch of time are placed
    and ordered anew, all others stay. A window counts as one evaluation. For step time with overlapped transfers,
    without host threads; what else there is comes back as `auto` left it, "complete".

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

    def solve(
        self,
        problem: Problem,
        budget: Budget,
        seed: int,
        proposal: Proposal | None = None,
        *,
        on_progress: OnProgress | None = None,
        interrupted: Interrupted | None = None,
    ) -> Result:
        """As Method.solve. Raises MissingExtraError without OR-tools."""
        began = time.perf_counter()
        require_ortools(self.name)
        warm = Auto().solve(
            problem, self._part(problem, budget), seed, proposal, on_progress=on_progress, interrupted=interrupted
        )
        best = Best(problem, warm, began, self.name, on_progress)
        reason, num_windows = warm.stopped_because, 0
        if not _has_windows(problem):
            reason = "complete" if reason in ("evaluations", "time") else reason
        elif reason not in ("optimal", "infeasible", "interrupted") and best.metrics.bytes_over_limit == 0:
            reason, num_windows = self._improve(best, problem, budget, seed, interrupted)
        best.report()
        return Result(
            method=self.name,
            solution=best.solution,
            metrics=best.metrics,
            found_by=best.found_by,
            evaluations=warm.evaluations + num_windows,
            seconds=best.seconds(),
            stopped_because=reason,
            seed=seed,
            configuration={name: value for name, value in asdict(self).items() if name != "name"},
            trace=tuple(best.trace),
            baselines=warm.baselines,
        )

    def _part(self, problem: Problem, budget: Budget) -> Budget:
        """Of the budget, for the start."""
        share = self.warm_share if _has_windows(problem) else 1.0
        seconds = None if budget.seconds is None else share * budget.seconds
        return replace(budget, evaluations=max(1, int(share * budget.evaluations)), seconds=seconds)

    def _improve(
        self, best: Best, problem: Problem, budget: Budget, seed: int, interrupted: Interrupted | None
    ) -> tuple[str, int]:
        """Windows until the budget is spent; why it stopped, and how many."""
        from placewright.search.cp_sat.running import solve_window
        from placewright.search.cp_sat.timed import Timed
        from placewright.search.cp_sat.window import Window

        structure = structure_of(problem)
        timed, spent_effort, num_windows = Timed(structure, best.solution), 0.0, 0
        sliding = _Sliding(structure.num_ops, seed)
        while True:
            reason = budget.reason_to_stop(best.warm.evaluations + num_windows, best.seconds())
            if interrupted is not None and interrupted():
                reason = "interrupted"
            elif budget.seconds is None and spent_effort >= self.total_effort:
                reason = "complete"
            if reason is not None:
                return reason, num_windows
            left = None if budget.seconds is None else max(0.01, budget.seconds - best.seconds())
            window = Window(timed, *next(sliding.windows))
            found = solve_window(window, effort=self.effort, seconds=left, seed=seed + num_windows)
            num_windows += 1
            spent_effort += found.effort
            if found.solution is not None:
                changed = Timed(structure, found.solution)
                if changed.bytes_over_limit == 0 and changed.step_time_ns <= timed.step_time_ns:
                    timed = changed
                    best.offer(changed.solution, self.name, evaluations=num_windows)
            if found.is_optimal and len(window.inside) == structure.num_ops:
                return "complete", num_windows
            sliding.learn(found.is_optimal, found.effort / self.effort)


class _Sliding:
    """Windows from the first op to the last, each overlapping half of the one before, round after round."""

    def __init__(self, num_ops: int, seed: int) -> None:
        self._num_ops, self._size, self._random = num_ops, float(_SIZE), random.Random(seed)
        self.windows = self._windows()

    def _windows(self) -> Iterator[tuple[int, int]]:
        """First position by start, and number of ops; later rounds do not cut where the first did."""
        first = 0
        while True:
            size = min(int(self._size), self._num_ops - first)
            yield first, size
            half = int(self._size) // 2
            first = first + half if first + size < self._num_ops else self._random.randrange(min(half, self._num_ops))

    def learn(self, is_optimal: bool, share: float) -> None:
        """share: of the effort allowed, spent on the last window."""
        if not is_optimal:
            self._size = max(float(_LEAST), 0.92 * self._size)
        elif share < 1 / 3:
            self._size = min(float(_MOST), 1.05 * self._size)


def _has_windows(problem: Problem) -> bool:
    machine = problem.machine
    return (
        problem.objective == "step-time"
        and machine.transfer_model == "overlapped"
        and machine.num_devices > 1
        and not problem.core.has_hosts
        and len(problem.lowered.graph_op) > 1
    )
