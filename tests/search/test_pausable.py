"""When a search that is driven batch by batch stops."""

from __future__ import annotations

import itertools
import time

import pytest

from placewright.search.budget import Budget
from placewright.search.pausable import run


class Staircase:
    """Its objective is 1000 and falls to 10 with evaluation `fall`; so do the bytes over the limit from 5 to 0 with
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


def drive(search: Staircase, budget: Budget) -> str:
    return run(search, "staircase", budget, time.perf_counter(), None, None).stopped_because


def test_a_search_ends_soon_after_its_best_meets_the_bound() -> None:
    search = Staircase(fall=1000)
    assert drive(search, Budget(evaluations=1_000_000, bound=10)) == "optimal"
    # It is looked for again at most an eighth later.
    assert 1000 <= search.evaluations <= 1125


def test_a_bound_that_is_not_met_ends_nothing() -> None:
    search = Staircase(fall=1000)
    assert drive(search, Budget(evaluations=5000, bound=9)) == "evaluations"
    assert search.evaluations == 5000


def test_without_a_bound_a_search_runs_to_the_end_of_its_budget() -> None:
    search = Staircase(fall=1000)
    assert drive(search, Budget(evaluations=5000)) == "evaluations"
    assert search.evaluations == 5000


def test_a_solution_over_its_limits_meets_no_bound() -> None:
    search = Staircase(fall=100, fits=2000)
    assert drive(search, Budget(evaluations=1_000_000, bound=10)) == "optimal"
    assert 2000 <= search.evaluations <= 2250


def test_a_bound_met_with_the_last_evaluation_counts() -> None:
    assert drive(Staircase(fall=777), Budget(evaluations=777, bound=10)) == "optimal"


def test_evaluations_of_the_budget_that_are_spent_before_do_not_delay_the_end() -> None:
    search = Staircase(fall=1000)
    budget = Budget(evaluations=1_000_000, bound=10)
    assert run(search, "staircase", budget, time.perf_counter(), None, None, spent=500).stopped_because == "optimal"
    assert 1000 <= search.evaluations <= 1125


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
        run(search, "staircase", Budget(evaluations=10**6, bound=10), 0.0, None, None, first_batch=first_batch)
        ends.append(search.evaluations)
    # Looks come after 1, 2, ... 8, 9, ... 16, 18, 20, ... evaluations, each an eighth later: 929, 1045.
    assert ends == [1045] * 3
