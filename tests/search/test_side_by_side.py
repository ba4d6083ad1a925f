"""Several searches at once, as if they were one."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest
from instances import graph_of, machine_of, problem_of
from waiting import wait_until

from placewright.search.auto import Auto
from placewright.search.budget import UNLIMITED, Budget, Interrupted, OnProgress, Progress
from placewright.search.input_order import INPUT_ORDER
from placewright.search.result import Result, TracePoint
from placewright.search.side_by_side import best_side_by_side

#: Three equal ops of 2 ns on two devices: 4 ns, and no bound above the half of the work, 3 ns, proves it.
PROBLEM = problem_of(graph_of({"a": ("", 4), "b": ("", 4), "c": ("", 4)}), machine_of(2), (2, 2, 2))
FOUND = INPUT_ORDER.solve(PROBLEM, Budget(), 0)


def result(step_time_ns: int, *, stopped_because: str = "time", **changes: object) -> Result:
    metrics = replace(FOUND.metrics, step_time_ns=step_time_ns)
    return replace(FOUND, metrics=metrics, evaluations=10, stopped_because=stopped_because, **changes)


class Script:
    """A search that gives each thread the next of some results; `seeds` are those it was asked with."""

    def __init__(self, *results: Result) -> None:
        self._results = iter(results)
        self._lock = threading.Lock()
        self.seeds: list[int] = []

    def __call__(self, seed: int, *, on_progress: OnProgress | None, interrupted: Interrupted | None) -> Result:
        with self._lock:
            self.seeds.append(seed)
            return next(self._results)


def test_the_best_is_the_result_with_the_evaluations_of_all() -> None:
    script = Script(result(6), result(4), result(5))
    best = best_side_by_side(script, PROBLEM, 7, 3)
    assert (best.metrics.step_time_ns, best.evaluations, best.seed) == (4, 30, 7)


def test_every_search_has_a_seed_of_its_own_and_the_first_the_one_given() -> None:
    script = Script(result(6), result(4), result(5))
    best_side_by_side(script, PROBLEM, 7, 3)
    assert 7 in script.seeds
    assert len(set(script.seeds)) == 3


def test_the_trace_has_the_best_of_all_and_the_evaluations_until_then() -> None:
    def trace(*points: tuple[int, float, int]) -> tuple[TracePoint, ...]:
        return tuple(TracePoint(evaluations=e, seconds=s, best=b, bytes_over_limit=0) for e, s, b in points)

    script = Script(result(5, trace=trace((1, 0.1, 9), (4, 0.4, 5))), result(6, trace=trace((2, 0.2, 9), (3, 0.3, 6))))
    # 9 first after one evaluation; 6 after 1 + 3; 5 after 4 + 3.
    assert best_side_by_side(script, PROBLEM, 0, 2).trace == trace((1, 0.1, 9), (4, 0.3, 6), (7, 0.4, 5))


def test_what_is_shown_is_the_best_of_all_so_far() -> None:
    shown: list[Progress] = []
    both = threading.Barrier(2)

    def search(seed: int, *, on_progress: OnProgress | None, interrupted: Interrupted | None) -> Result:
        assert on_progress is not None
        best = 5 if seed == 0 else 8
        on_progress(Progress(method="x", evaluations=10, seconds=0.1, best=best, bytes_over_limit=0))
        both.wait(10)
        on_progress(Progress(method="x", evaluations=20, seconds=0.2, best=best, bytes_over_limit=0))
        return result(best)

    best_side_by_side(search, PROBLEM, 0, 2, on_progress=shown.append)
    assert [progress.evaluations for progress in shown] == [10, 20, 30, 40]
    assert [progress.best for progress in shown[1:]] == [5, 5, 5]


@pytest.mark.parametrize("reason", ["optimal", "complete"])
def test_a_search_with_nothing_left_to_find_ends_the_others(reason: str) -> None:
    def search(seed: int, *, on_progress: OnProgress | None, interrupted: Interrupted | None) -> Result:
        assert interrupted is not None
        if seed == 0:
            return result(4, stopped_because=reason)
        wait_until(interrupted)
        return result(4, stopped_because="interrupted")

    assert best_side_by_side(search, PROBLEM, 0, 3).stopped_because == reason


@pytest.mark.parametrize("fails_first", [True, False])
def test_a_search_that_fails_ends_the_others(fails_first: bool) -> None:
    began, ended = [], []

    def search(seed: int, *, on_progress: OnProgress | None, interrupted: Interrupted | None) -> Result:
        assert interrupted is not None
        if (seed == 0) == fails_first:
            raise MemoryError
        began.append(seed)
        wait_until(interrupted)
        ended.append(seed)
        return result(4)

    with pytest.raises(MemoryError):
        best_side_by_side(search, PROBLEM, 0, 2)
    assert ended == began


@pytest.mark.parametrize(("evaluations", "num_searches"), [(UNLIMITED, 2), (2_000, 1)])
def test_auto_searches_in_every_thread_where_time_alone_ends_it(evaluations: int, num_searches: int) -> None:
    threads: set[int] = set()

    def interrupted() -> bool:
        threads.add(threading.get_ident())
        return False

    main = threading.get_ident()
    Auto(threads=2).solve(PROBLEM, Budget(evaluations=evaluations, seconds=0.5), 0, interrupted=interrupted)
    assert len(threads - {main}) == (num_searches if num_searches > 1 else 0)
