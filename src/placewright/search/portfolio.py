"""A run of all baselines on one problem within its time. The cheap ones always run. Before them run candidates of the
costly ones, which gain the most in the same time: as many as planned and as a time limit leaves room for, always of the
costly baseline whose plan is the best so far."""

from __future__ import annotations

import math
from collections.abc import Iterable

from placewright.problem import Problem
from placewright.problem.objective import StopReason
from placewright.search.constructive.baseline import Baseline, Trial
from placewright.search.constructive.baselines import BASELINES
from placewright.search.constructive.cluster_list import CLUSTER_LIST, CLUSTER_PARTITION
from placewright.search.constructive.insertion import INSERTION
from placewright.search.constructive.layers import LAYERS
from placewright.search.run.result import Result
from placewright.search.run.search_run import SearchRun

#: The time of one candidate of each costly baseline, in ns per scheduled op; in the order of their first turns.
_COSTLY: dict[Baseline, int] = {INSERTION: 2_000, CLUSTER_LIST: 1_000, LAYERS: 420, CLUSTER_PARTITION: 3_500}
#: The usual number of candidates; `layers` has many for recurrent networks only.
_NUM_CANDIDATES: dict[Baseline, int] = {INSERTION: 4, CLUSTER_LIST: 42, CLUSTER_PARTITION: 14}
#: The candidates of a costly one's first turn that are cheap enough to be made under any limit.
_FIRST: dict[Baseline, int] = {LAYERS: 4}
#: The time of all cheap baselines together, in ns per op.
_CHEAP = 20_000
#: Share of the time of all baselines for the costly ones before the cheap ones, which gain less in the same time.
_BEFORE_CHEAP = 0.65
#: Share of a time limit for all baselines.
_SHARE = 0.5
#: Time of all baselines without a time limit, and the least per op: 16,000 ops have half a second.
_SECONDS, _NS_PER_OP = 0.5, 30_000


def run_baselines(problem: Problem, run: SearchRun) -> list[Result]:
    """Return the results of each baseline, in the order of BASELINES, whatever evaluations the run has.

    The number of candidates of the costly ones is planned in advance from the number of ops: together with the cheap
    ones they may take half a second, or more for graphs of more than 16,000 ops. Without a time limit no clock is read:
    the same candidates are made each time. Half of a time limit is for the baselines; if that is more than half a
    second, it is the time to plan with. A costly candidate begins only if enough of that half is left for it, or of a
    part of that half until each cheap one has made a candidate, which it does under any limit. Further candidates of
    the cheap ones come last, while there is time. A candidate that was begun is finished and counts. After an interrupt
    no candidate begins.
    """
    return _Portfolio(problem, run).results()


def planned_seconds(num_ops: int) -> float:
    """Return the time for the baselines without a limit, at most the time of all their candidates, except those that
    only recurrent networks have."""
    most = _CHEAP + sum(_COSTLY[method] * count for method, count in _NUM_CANDIDATES.items())
    return min(_without_limit(num_ops), most * num_ops) / 1e9


def _without_limit(num_ops: int) -> float:
    return max(_SECONDS * 1e9, _NS_PER_OP * num_ops)


class _Portfolio:
    def __init__(self, problem: Problem, run: SearchRun) -> None:
        num_ops, self._run = problem.core.num_ops, run
        self._limit = None if run.budget.seconds is None else run.budget.seconds * _SHARE
        self._trials = [Trial(method, problem, run) for method in BASELINES]
        of_method = {trial.method: trial for trial in self._trials}
        self._costs = {of_method[method]: cost * num_ops for method, cost in _COSTLY.items()}
        self._planned = max(_without_limit(num_ops), (self._limit or 0.0) * 1e9) - _CHEAP * num_ops

    def results(self) -> list[Result]:
        cheap = [trial for trial in self._trials if trial.method not in _COSTLY]
        self._make_costly(until=_BEFORE_CHEAP)
        self._begin([*cheap, *(trial for trial in self._trials if trial.method in _FIRST)])
        self._make_costly(until=1.0)
        self._finish(cheap)
        stopped: StopReason = "evaluations" if self._limit is None else "time"
        stopped = "interrupted" if self._run.is_interrupted() else stopped
        return [trial.result("complete" if trial.is_complete else stopped) for trial in self._made()]

    def _made(self) -> list[Trial]:
        return [trial for trial in self._trials if trial.evaluations > 0]

    def _begin(self, trials: Iterable[Trial]) -> None:
        """Make the candidates that each trial makes under any limit, unless it has."""
        for trial in trials:
            if self._run.is_interrupted() and self._made():
                break
            for _ in range(0 if trial.evaluations else _FIRST.get(trial.method, 1)):
                trial.advance()

    def _finish(self, trials: Iterable[Trial]) -> None:
        for trial in trials:
            while self._has_time() and trial.advance():
                pass

    def _make_costly(self, until: float) -> None:
        """Make a candidate of each costly baseline, then always of the one whose plan is the best so far, while the
        plan and that share of the time have room."""
        while self._has_time():
            room = min(self._planned, self._ns_until(until))
            waiting = [trial for trial in self._costs if not trial.is_complete and self._costs[trial] <= room]
            new = [trial for trial in waiting if trial.evaluations == 0]
            if not waiting:
                break
            trial = new[0] if new else min(waiting, key=lambda trial: trial.best)
            if not new or trial.method not in _FIRST:
                self._planned -= self._costs[trial]
            self._begin([trial]) if new else trial.advance()

    def _ns_until(self, share: float) -> float:
        return math.inf if self._limit is None else (self._limit * share - self._run.seconds) * 1e9

    def _has_time(self) -> bool:
        is_over = self._limit is not None and self._run.seconds >= self._limit
        return not is_over and not self._run.is_interrupted()
