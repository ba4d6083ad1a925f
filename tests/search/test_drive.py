"""Stopping rules of a search that is driven batch by batch."""

from __future__ import annotations

import itertools
import time

import pytest

from placewright.search.run.budget import Budget
from placewright.search.run.drive import drive
from placewright.search.run.search_run import SearchRun


class Staircase:
    """A search whose objective falls from 1000 to 10 at evaluation `fall`, and its bytes over the limit from 5 to 0 at
    evaluation `fits`."""

    def __init__(self, fall: int, fits: int = 0) -> None:
        self.fall, self.fits = fall, fits
        self.evaluations = 0

    @property
    def best_objective(self) -> int:
        return 10 if self.evaluations >= self.fall else 1000

    @property
    def best_bytes_over_limit(self) -> int:
        return 0 if self.evaluations >= self.fits else 5

    def advance(self, evaluations: int, *, at_most: int) -> None:
        assert at_most >= 1
        self.evaluations = min(evaluations, self.evaluations + at_most)


def driven(search: Staircase, evaluations: int, bound: int | None = None) -> str:
    return drive(SearchRun(Budget(evaluations=evaluations), bound=bound), search, "staircase")


def test_a_search_ends_soon_after_its_best_meets_the_bound() -> None:
    search = Staircase(fall=1000)
    assert driven(search, 1_000_000, bound=10) == "optimal"
    # It is looked for again at most an eighth later.
    assert 1000 <= search.evaluations <= 1125


@pytest.mark.parametrize(("fall", "gained"), [(9_000, False), (9_001, True), (10_001, False)])
def test_whether_the_last_tenth_gained_is_told_by_evaluations(fall: int, gained: bool) -> None:
    run = SearchRun(Budget(evaluations=10_000))
    drive(run, Staircase(fall=fall), "staircase")
    assert run.gained_lately() == gained


def test_a_bound_that_is_not_met_ends_nothing() -> None:
    search = Staircase(fall=1000)
    assert driven(search, 5000, bound=9) == "evaluations"
    assert search.evaluations == 5000


def test_without_a_bound_a_search_runs_to_the_end_of_its_budget() -> None:
    search = Staircase(fall=1000)
    assert driven(search, 5000) == "evaluations"
    assert search.evaluations == 5000


def test_a_solution_over_its_limits_meets_no_bound() -> None:
    search = Staircase(fall=100, fits=2000)
    assert driven(search, 1_000_000, bound=10) == "optimal"
    assert 2000 <= search.evaluations <= 2250


def test_a_bound_met_with_the_last_evaluation_counts() -> None:
    assert driven(Staircase(fall=777), 777, bound=10) == "optimal"


def test_evaluations_of_the_budget_that_are_spent_before_do_not_delay_the_end() -> None:
    search = Staircase(fall=1000)
    run = SearchRun(Budget(evaluations=1_000_000), bound=10)
    run.spend(500)
    assert drive(run, search, "staircase") == "optimal"
    assert 1000 <= search.evaluations <= 1125
    assert run.evaluations == 500 + search.evaluations


@pytest.mark.parametrize("first_batch", [1, 3, 64])
def test_where_a_search_ends_at_its_bound_is_not_a_matter_of_speed(
    first_batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Between two looks at the clock 1 us, 1 ms or 1 s pass: batches are long or short, the end is the same.
    ends = []
    for tick in (1e-6, 1e-3, 1.0):
        clock = itertools.count()
        monkeypatch.setattr(time, "perf_counter", lambda clock=clock, tick=tick: next(clock) * tick)
        search = Staircase(fall=1000)
        drive(SearchRun(Budget(evaluations=10**6), bound=10), search, "staircase", first_batch=first_batch)
        ends.append(search.evaluations)
    # Looks come after 1, 2, ... 8, 9, ... 16, 18, 20, ... evaluations, each an eighth later: 929, 1045.
    assert ends == [1045] * 3


def test_a_search_that_ran_before_it_is_driven_counts_from_its_start() -> None:
    search = Staircase(fall=10**6)
    search.advance(8, at_most=8)
    run = SearchRun(Budget(evaluations=100))
    assert drive(run, search, "staircase") == "evaluations"
    assert search.evaluations == run.evaluations == 100


def test_an_interrupt_and_the_end_of_the_time_end_a_search() -> None:
    asked = itertools.count()
    search = Staircase(fall=10**9)
    run = SearchRun(Budget(evaluations=2**50), interrupted=lambda: next(asked) == 3)
    assert drive(run, search, "staircase") == "interrupted"
    assert drive(SearchRun(Budget(evaluations=2**50, seconds=1e-6)), search, "staircase") == "time"


def test_a_search_with_nothing_left_to_do_is_complete() -> None:
    search = Staircase(fall=10**9)
    run = SearchRun(Budget(evaluations=1000))
    assert drive(run, search, "staircase", is_exhausted=lambda: search.evaluations >= 20) == "complete"
    assert 20 <= search.evaluations < 1000


def test_a_time_limit_ends_a_search_within_an_evaluation(monkeypatch: pytest.MonkeyPatch) -> None:
    # Each evaluation takes 3 ms; batches of 20 ms would end up to that much late.
    now = 0.0

    class Slow(Staircase):
        def advance(self, evaluations: int, *, at_most: int) -> None:
            nonlocal now
            before = self.evaluations
            super().advance(evaluations, at_most=at_most)
            now += 0.003 * (self.evaluations - before)

    monkeypatch.setattr(time, "perf_counter", lambda: now)
    search = Slow(fall=10**9)
    assert drive(SearchRun(Budget(evaluations=2**50, seconds=0.1)), search, "staircase") == "time"
    assert 0.1 <= now < 0.103


@pytest.mark.parametrize(("seconds", "is_told_all"), [(0.5, True), (0.4, True), (0.12, False)])
def test_a_search_that_begins_slowly_is_told_all_evaluations_that_it_may_reach(
    seconds: float, is_told_all: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Eight starts of 10 ms each, then 992 moves of 0.1 ms: 0.18 s.
    now, told = 0.0, []

    class SlowAtFirst(Staircase):
        def advance(self, evaluations: int, *, at_most: int) -> None:
            nonlocal now
            told.append(evaluations)
            before = self.evaluations
            super().advance(evaluations, at_most=at_most)
            now += sum(0.01 if index < 8 else 1e-4 for index in range(before, self.evaluations))

    monkeypatch.setattr(time, "perf_counter", lambda: now)
    search = SlowAtFirst(fall=10**9)
    reason = drive(SearchRun(Budget(evaluations=1000, seconds=seconds)), search, "staircase")
    assert (reason, set(told) == {1000}) == (("evaluations", True) if is_told_all else ("time", False))
