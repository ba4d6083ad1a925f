"""All baselines on one problem, within what a plan may take: the cheap ones first and always, then candidates of the
costly ones in turn, as many as are planned."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from placewright.problem import Problem
from placewright.problem.objective import StopReason
from placewright.search.constructive.baseline import Baseline, Trial
from placewright.search.constructive.baselines import BASELINES
from placewright.search.constructive.cluster_list import CLUSTER_LIST
from placewright.search.constructive.cluster_partition import CLUSTER_PARTITION
from placewright.search.constructive.insertion import INSERTION
from placewright.search.constructive.layers import LAYERS
from placewright.search.run.result import Result
from placewright.search.run.search_run import SearchRun

#: What one candidate takes, in ns per scheduled op (`python benchmarks/baseline_costs.py`).
_COSTLY: dict[Baseline, int] = {INSERTION: 2_000, CLUSTER_LIST: 1_500, CLUSTER_PARTITION: 4_000, LAYERS: 350}
#: How many candidates there are, mostly; of `layers` only recurrent networks have many.
_NUM_CANDIDATES: dict[Baseline, int] = {INSERTION: 8, CLUSTER_LIST: 42, CLUSTER_PARTITION: 14}
#: Candidates of a costly one that are cheap enough to be made whatever the limit.
_FIRST: dict[Baseline, int] = {LAYERS: 4}
#: Whose turn comes so many times as often: most of what recurrent networks gain is the gain of `layers`.
_WEIGHTS: dict[Baseline, int] = {LAYERS: 4}
#: What all others take together, in ns per op.
_CHEAP = 20_000
#: Of a time limit, for all baselines.
_SHARE = 0.5
#: For all baselines where there is no time limit, and the least per op: 16,000 ops have half a second.
_SECONDS, _NS_PER_OP = 0.5, 30_000


def run_baselines(problem: Problem, run: SearchRun, first: Sequence[Baseline] = ()) -> list[Result]:
    """What each baseline found, `first` and then in the order of BASELINES, whatever evaluations the run has.

    Half of a time limit is for the baselines. How many candidates of the costly ones fit into it is planned by the
    number of ops before any is made; where the clock is ahead of the plan there are fewer. Without a limit half a
    second is planned with, more for graphs of more than 16,000 ops, and no clock is looked at: the same candidates are
    made each time. One that was begun is finished and counts. A cheap baseline makes a candidate whatever the limit.
    After an interrupt none begins.
    """
    return _Portfolio(problem, run, first).results()


def planned_seconds(num_ops: int) -> float:
    """What they may take without a limit, at most what all their candidates take."""
    most = _CHEAP + sum(_COSTLY[method] * count for method, count in _NUM_CANDIDATES.items())
    return min(_without_limit(num_ops), most * num_ops) / 1e9


def _without_limit(num_ops: int) -> float:
    return max(_SECONDS * 1e9, _NS_PER_OP * num_ops)


class _Portfolio:
    def __init__(self, problem: Problem, run: SearchRun, first: Sequence[Baseline]) -> None:
        self._num_ops, self._run = problem.core.num_ops, run
        self._limit = None if run.budget.seconds is None else run.budget.seconds * _SHARE
        self._trials = [Trial(method, problem, run) for method in (*first, *BASELINES)]

    def results(self) -> list[Result]:
        for trial in self._trials:
            if trial.method not in _COSTLY:
                while trial.advance() and not self._is_over():
                    pass
            for _ in range(_FIRST.get(trial.method, 0)):
                trial.advance()
            if self._run.is_interrupted():
                break
        for trial in self._in_turn():
            if self._is_over() or self._run.is_interrupted():
                break
            trial.advance()
        stopped: StopReason = "time" if self._is_over() else "evaluations"
        stopped = "interrupted" if self._run.is_interrupted() else stopped
        made = [trial for trial in self._trials if trial.evaluations > 0]
        return [trial.result("complete" if trial.is_complete else stopped) for trial in made]

    def _in_turn(self) -> Iterator[Trial]:
        """Whose candidate is the next, as long as the plan has room: always of the one that has taken less so far."""
        planned = _without_limit(self._num_ops) if self._limit is None else self._limit * 1e9
        left = planned - _CHEAP * self._num_ops
        costs = {trial: _COSTLY[trial.method] * self._num_ops for trial in self._trials if trial.method in _COSTLY}
        spent = dict.fromkeys(costs, 0)
        while waiting := [trial for trial in costs if not trial.is_complete and costs[trial] <= left]:
            trial = min(waiting, key=lambda trial: spent[trial])
            spent[trial] += costs[trial] // _WEIGHTS.get(trial.method, 1)
            left -= costs[trial]
            yield trial

    def _is_over(self) -> bool:
        return self._limit is not None and self._run.seconds >= self._limit
