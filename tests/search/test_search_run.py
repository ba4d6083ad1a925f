"""Budgets that a run gives a method, and what the run reports of it."""

from __future__ import annotations

import itertools
import time

import numpy as np
import pytest
from instances import graph_of, machine_of, problem_of

from placewright.search.run.budget import UNLIMITED, Budget, Progress
from placewright.search.run.result import Solution
from placewright.search.run.search_run import SearchRun
from placewright.support.errors import InputError

#: Two ops of 5 ns: 10 ns on one device, 5 ns on two.
PROBLEM = problem_of(graph_of({"a": ("", 1), "b": ("", 1)}), machine_of(2), 5)


def solution_on(*device_of: int) -> Solution:
    ops = np.arange(2, dtype=np.int32)
    order = np.stack([ops, np.full_like(ops, -1)], axis=1)
    return Solution(device_of=np.array(device_of, np.int32), order=order)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Replace time.perf_counter(): it returns the one number of this list."""
    now = [100.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    return now


def test_a_run_ends_with_its_evaluations_its_time_or_an_interrupt(clock: list[float]) -> None:
    wants_to_end = [False]
    run = SearchRun(Budget(evaluations=10, seconds=2.0), interrupted=lambda: wants_to_end[0])
    run.spend(9)
    clock[0] += 1.9
    assert run.reason_to_stop() is None
    wants_to_end[0] = True
    assert run.reason_to_stop() == "interrupted"
    clock[0] += 0.1
    assert run.reason_to_stop() == "time"
    run.spend(1)
    assert run.reason_to_stop() == "evaluations"


def test_a_part_has_a_share_of_what_is_left_and_what_it_spends_is_gone(clock: list[float]) -> None:
    run = SearchRun(Budget(evaluations=100, seconds=10.0), seed=3, threads=2, bound=7)
    run.spend(20)
    clock[0] += 2.0
    part = run.part(0.25)
    assert part.budget == Budget(evaluations=20, seconds=2.0)
    assert (part.seed, part.threads, part.bound, part.evaluations, part.seconds) == (3, 2, 7, 0, 0.0)
    part.spend(20)
    clock[0] += 1.0
    assert part.reason_to_stop() == "evaluations"
    assert (run.evaluations_left, run.seconds_left) == (60, 7.0)
    assert run.part().budget == Budget(evaluations=60, seconds=7.0)
    assert run.part(evaluations=90, seconds=1.0).budget == Budget(evaluations=60, seconds=1.0)


def test_a_part_of_a_run_that_is_over_has_one_evaluation_and_a_moment(clock: list[float]) -> None:
    run = SearchRun(Budget(evaluations=5, seconds=1.0))
    run.spend(7)
    clock[0] += 3.0
    assert run.evaluations_left == 0
    assert run.part(0.5).budget == Budget(evaluations=1, seconds=1e-3)


def test_the_whole_of_a_budget_without_end_is_not_rounded() -> None:
    # As a float 2**62 - 11 is 2**62.
    run = SearchRun(Budget(evaluations=UNLIMITED))
    run.spend(10)
    assert run.part().budget.evaluations == UNLIMITED - 10
    assert run.part(0.5).budget.evaluations <= UNLIMITED // 2 + 1


def test_a_part_on_another_problem_ends_at_a_share_of_the_whole_budget(clock: list[float]) -> None:
    shown: list[Progress] = []
    run = SearchRun(Budget(evaluations=100, seconds=10.0), on_progress=shown.append)
    run.spend(15)
    clock[0] += 1.0
    part = run.part_until(0.4)
    assert part.budget == Budget(evaluations=25, seconds=3.0)
    part.report("x", 1, 0, evaluations=25)
    assert run.evaluations == 40
    # Its objective is that of the other problem.
    assert (run.trace, shown) == ([], [])
    assert [point.best for point in part.trace] == [1]


def test_what_parts_find_is_told_as_of_one_run(clock: list[float]) -> None:
    shown: list[Progress] = []
    run = SearchRun(on_progress=shown.append)
    first, second = run.part(), run.part()
    first.report("first", 8, 0, evaluations=3)
    clock[0] += 0.5
    second.report("second", 9, 0, evaluations=4)
    second.report("second", 20, 1, evaluations=1)
    clock[0] += 0.5
    second.report("second", 6, 0, evaluations=2)
    assert [(p.method, p.evaluations, p.seconds, p.best) for p in shown] == [
        ("first", 3, 0.0, 8),
        ("second", 7, 0.5, 8),
        ("second", 8, 0.5, 8),
        ("second", 10, 1.0, 6),
    ]
    assert [(point.evaluations, point.best) for point in run.trace] == [(3, 8), (10, 6)]
    assert [(point.evaluations, point.best) for point in second.trace] == [(4, 9), (7, 6)]


def test_an_interrupt_of_the_whole_ends_its_parts_and_one_of_a_part_only_itself() -> None:
    run = SearchRun(interrupted=iter([False, False, True]).__next__)
    one, other = run.part(interrupted=lambda: True), run.part().part()
    assert one.is_interrupted()
    assert not other.is_interrupted()
    assert not run.is_interrupted()
    assert other.is_interrupted()


def test_the_best_solution_offered_is_the_result() -> None:
    run = SearchRun(seed=9)
    assert run.offer(PROBLEM, solution_on(0, 0), "mine").step_time_ns == 10
    assert run.offer(PROBLEM, solution_on(0, 1), "mine", found_by="mine: second").step_time_ns == 5
    run.offer(PROBLEM, solution_on(1, 1), "mine", evaluations=0)
    result = run.result(PROBLEM, "mine", stopped_because="complete")
    assert (result.metrics.step_time_ns, result.found_by, result.evaluations, result.seed) == (5, "mine: second", 2, 9)
    assert [(point.evaluations, point.best) for point in result.trace] == [(1, 10), (2, 5)]


def test_a_method_that_offers_nothing_is_named() -> None:
    with pytest.raises(InputError, match="method 'mine' made no solution"):
        SearchRun().result(PROBLEM, "mine")


@pytest.mark.parametrize("threads", [0, 1025])
def test_threads_are_from_1_to_1024(threads: int) -> None:
    with pytest.raises(InputError, match=f"threads is {threads}; it must be a number from 1 to 1024"):
        SearchRun(threads=threads)


def test_shares_of_rounding_never_add_up_to_more_than_there_is() -> None:
    run = SearchRun(Budget(evaluations=97))
    for share in itertools.islice(itertools.cycle([0.3, 0.7]), 6):
        run.part(share).spend(run.part(share).budget.evaluations)
    assert run.evaluations <= 97
