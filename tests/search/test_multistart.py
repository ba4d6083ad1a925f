"""Several searches at once that act as one."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
from instances import graph_of, machine_of, problem_of
from waiting import wait_until

from placewright.problem import Problem
from placewright.problem.objective import StopReason
from placewright.search.auto import Auto
from placewright.search.constructive.one_device import INPUT_ORDER
from placewright.search.run.budget import UNLIMITED, Budget, Progress
from placewright.search.run.multistart import multistart
from placewright.search.run.result import Result
from placewright.search.run.search_run import SearchRun

#: Three ops of 3, 3 and 4 ns on two devices: 6 ns, and no bound above the half of the work, 5 ns, proves it.
PROBLEM = problem_of(graph_of({"a": ("", 4), "b": ("", 4), "c": ("", 4)}), machine_of(2), (3, 3, 4))
FOUND = INPUT_ORDER.solve(PROBLEM, SearchRun())


def result(step_time_ns: int, *, stopped_because: StopReason = "time", **changes: Any) -> Result:
    metrics = replace(FOUND.metrics, step_time_ns=step_time_ns)
    return replace(FOUND, metrics=metrics, evaluations=10, stopped_because=stopped_because, **changes)


class Script:
    """A search that gives each thread the next of some results after 10 evaluations; `seeds` are those it had."""

    def __init__(self, *results: Result) -> None:
        self._results = iter(results)
        self._lock = threading.Lock()
        self.seeds: list[int] = []

    def solve(self, problem: Problem, run: SearchRun) -> Result:
        with self._lock:
            self.seeds.append(run.seed)
            run.spend(10)
            return next(self._results)


@dataclass
class Scripted:
    """A search that is a function of its run."""

    function: Callable[[SearchRun], Result]

    def solve(self, problem: Problem, run: SearchRun) -> Result:
        return self.function(run)


def test_the_best_is_the_result_with_the_evaluations_of_all() -> None:
    best = multistart(Script(result(6), result(4), result(5)), PROBLEM, SearchRun(seed=7), 3)
    assert (best.metrics.step_time_ns, best.evaluations, best.seed) == (4, 30, 7)


def test_every_search_has_a_seed_of_its_own_and_the_first_the_one_given() -> None:
    script = Script(result(6), result(4), result(5))
    multistart(script, PROBLEM, SearchRun(seed=7), 3)
    assert 7 in script.seeds
    assert len(set(script.seeds)) == 3


def test_the_trace_has_the_best_of_all_and_the_evaluations_until_then() -> None:
    turns = [threading.Event() for _ in range(5)]
    turns[0].set()

    def found(run: SearchRun, turn: int, evaluations: int, best: int) -> None:
        assert turns[turn].wait(10)
        run.report("x", best, 0, evaluations=evaluations)
        turns[turn + 1].set()

    def search(run: SearchRun) -> Result:
        if run.seed == 0:
            found(run, 0, 1, 9)
            found(run, 3, 3, 5)
            return result(5)
        found(run, 1, 2, 9)
        found(run, 2, 1, 6)
        return result(6)

    # 9 first after one evaluation; 6 after 1 + 2 + 1; 5 after 3 more.
    trace = multistart(Scripted(search), PROBLEM, SearchRun(), 2).trace
    assert [(point.evaluations, point.best) for point in trace] == [(1, 9), (4, 6), (7, 5)]


def test_what_is_shown_is_the_best_of_all_so_far() -> None:
    shown: list[Progress] = []
    both = threading.Barrier(2)

    def search(run: SearchRun) -> Result:
        best = 5 if run.seed == 0 else 8
        for _ in range(2):
            run.report("x", best, 0, evaluations=10)
            both.wait(10)
        return result(best)

    multistart(Scripted(search), PROBLEM, SearchRun(on_progress=shown.append), 2)
    assert [progress.evaluations for progress in shown] == [10, 20, 30, 40]
    assert [progress.best for progress in shown[1:]] == [5, 5, 5]


@pytest.mark.parametrize("reason", ["optimal", "complete"])
def test_a_search_with_nothing_left_to_find_ends_the_others(reason: StopReason) -> None:
    def search(run: SearchRun) -> Result:
        if run.seed == 0:
            return result(4, stopped_because=reason)
        wait_until(run.is_interrupted)
        return result(4, stopped_because="interrupted")

    assert multistart(Scripted(search), PROBLEM, SearchRun(), 3).stopped_because == reason


@pytest.mark.parametrize("fails_first", [True, False])
def test_a_search_that_fails_ends_the_others(fails_first: bool) -> None:
    began, ended = [], []

    def search(run: SearchRun) -> Result:
        if (run.seed == 0) == fails_first:
            raise MemoryError
        began.append(run.seed)
        wait_until(run.is_interrupted)
        ended.append(run.seed)
        return result(4)

    with pytest.raises(MemoryError):
        multistart(Scripted(search), PROBLEM, SearchRun(), 2)
    assert ended == began


@pytest.mark.parametrize(("evaluations", "num_searches"), [(UNLIMITED, 2), (2_000, 1)])
def test_auto_searches_in_every_thread_where_time_alone_ends_it(evaluations: int, num_searches: int) -> None:
    threads: set[int] = set()

    def interrupted() -> bool:
        threads.add(threading.get_ident())
        return False

    main = threading.get_ident()
    budget = Budget(evaluations=evaluations, seconds=0.5)
    # With blocking transfers nothing is proven about so few ops, so the search goes on.
    problem = problem_of(PROBLEM.graph, machine_of(2, transfer_model="blocking"), (3, 3, 4))
    Auto().solve(problem, SearchRun(budget, threads=2, interrupted=interrupted))
    assert len(threads - {main}) == (num_searches if num_searches > 1 else 0)
