"""All baselines on one problem, within what a plan may take: the cheap ones always, and candidates of the costly ones,
as many as are planned and a time limit leaves room for, of the one whose plan is the best so far."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from placewright.problem import Problem
from placewright.problem.objective import StopReason
from placewright.search.constructive.baseline import Baseline, Trial
from placewright.search.constructive.baselines import BASELINES
from placewright.search.constructive.cluster_list import CLUSTER_LIST, CLUSTER_PARTITION
from placewright.search.constructive.insertion import INSERTION
from placewright.search.constructive.layers import LAYERS
from placewright.search.run.result import Result
from placewright.search.run.search_run import SearchRun

#: What one candidate takes, in ns per scheduled op.
_COSTLY: dict[Baseline, int] = {INSERTION: 2_000, CLUSTER_LIST: 1_000, CLUSTER_PARTITION: 3_500, LAYERS: 420}
#: How many candidates there are, mostly; of `layers` only recurrent networks have many.
_NUM_CANDIDATES: dict[Baseline, int] = {INSERTION: 4, CLUSTER_LIST: 42, CLUSTER_PARTITION: 14}
#: Candidates of a costly one that are cheap enough to be made whatever the limit.
_FIRST: dict[Baseline, int] = {LAYERS: 4}
#: What all others take together, in ns per op.
_CHEAP = 20_000
#: Under a time limit so many turns of the costly ones come before the cheap ones, which gain less in the same time.
_EARLY_TURNS = 4
#: Of a time limit, for all baselines.
_SHARE = 0.5
#: For all baselines where there is no time limit, and the least per op: 16,000 ops have half a second.
_SECONDS, _NS_PER_OP = 0.5, 30_000


def run_baselines(problem: Problem, run: SearchRun, first: Sequence[Baseline] = ()) -> list[Result]:
    """What each baseline found, `first` and then in the order of BASELINES, whatever evaluations the run has.

    How many candidates of the costly ones are made is planned by the number of ops before any is: half a second, more
    for graphs of more than 16,000 ops, is what they may take together with the cheap ones. Without a time limit no
    clock is looked at: the same candidates are made each time. Half of a time limit is for the baselines; where it is
    more than half a second, it is what is planned with. A costly candidate begins only where what it takes is left of
    that half, and the first of them come before the cheap ones. One that was begun is finished and counts. A cheap
    baseline makes a candidate whatever the limit. After an interrupt none begins.
    """
    return _Portfolio(problem, run, first).results()


def planned_seconds(num_ops: int) -> float:
    """What they may take without a limit, at most what all their candidates take, without those that only recurrent
    networks have."""
    most = _CHEAP + sum(_COSTLY[method] * count for method, count in _NUM_CANDIDATES.items())
    return min(_without_limit(num_ops), most * num_ops) / 1e9


def _without_limit(num_ops: int) -> float:
    return max(_SECONDS * 1e9, _NS_PER_OP * num_ops)


class _Portfolio:
    def __init__(self, problem: Problem, run: SearchRun, first: Sequence[Baseline]) -> None:
        self._num_ops, self._run = problem.core.num_ops, run
        self._limit = None if run.budget.seconds is None else run.budget.seconds * _SHARE
        self._num_first = len(first)
        self._trials = [Trial(method, problem, run) for method in (*first, *BASELINES)]

    def results(self) -> list[Result]:
        turns = self._in_turn()
        self._make_cheap(self._trials[: self._num_first])
        if self._limit is not None:
            self._make(islice(turns, _EARLY_TURNS))
        self._make_cheap(self._trials[self._num_first :])
        self._make(turns)
        stopped: StopReason = "evaluations" if self._limit is None else "time"
        stopped = "interrupted" if self._run.is_interrupted() else stopped
        return [trial.result("complete" if trial.is_complete else stopped) for trial in self._made()]

    def _made(self) -> list[Trial]:
        return [trial for trial in self._trials if trial.evaluations > 0]

    def _make_cheap(self, trials: Sequence[Trial]) -> None:
        for trial in trials:
            if self._run.is_interrupted() and self._made():
                break
            if trial.method not in _COSTLY:
                while trial.advance() and not self._is_over():
                    pass
            for _ in range(_FIRST.get(trial.method, 0)):
                trial.advance()

    def _make(self, turns: Iterable[Trial]) -> None:
        for trial in turns:
            if self._is_over() or self._run.is_interrupted():
                break
            trial.advance()

    def _in_turn(self) -> Iterator[Trial]:
        """Whose candidate is the next, as long as the plan and the clock have room: of each one, then always of the one
        whose plan is the best so far. One with candidates that are made whatever the limit has its turns after those.
        """
        planned = max(_without_limit(self._num_ops), (self._limit or 0.0) * 1e9)
        left = planned - _CHEAP * self._num_ops
        costs = {trial: _COSTLY[trial.method] * self._num_ops for trial in self._trials if trial.method in _COSTLY}
        while True:
            room = min(left, self._ns_left())
            waiting = [trial for trial in costs if not trial.is_complete and costs[trial] <= room]
            new = [trial for trial in waiting if trial.evaluations == 0 and trial.method not in _FIRST]
            begun = [trial for trial in waiting if trial.evaluations > 0]
            if not new and not begun:
                return
            trial = new[0] if new else min(begun, key=lambda trial: trial.best)
            left -= costs[trial]
            yield trial

    def _ns_left(self) -> float:
        return math.inf if self._limit is None else (self._limit - self._run.seconds) * 1e9

    def _is_over(self) -> bool:
        return self._limit is not None and self._run.seconds >= self._limit
