"""A time limit with room for the default starts with it, and continues from its best."""

from __future__ import annotations

from dataclasses import replace
from itertools import count, pairwise

import pytest

from placewright.bounds import Bound
from placewright.importers import load_graph
from placewright.machines import load_machine
from placewright.problem import Problem, make_problem
from placewright.search import auto
from placewright.search.auto import Auto
from placewright.search.metaheuristics import default_first
from placewright.search.metaheuristics.default_first import DefaultFirst
from placewright.search.metaheuristics.schedule_annealing import ScheduleAnnealing
from placewright.search.portfolio import run_baselines
from placewright.search.run.budget import UNLIMITED, Budget, Progress
from placewright.search.run.result import Result
from placewright.search.run.search_run import SearchRun

DEFAULT = 6000
#: Seconds of an evaluation; their sums are exact.
SECONDS = 2**-13


@pytest.fixture(scope="module")
def inception() -> Problem:
    """314 ops."""
    return make_problem(load_graph("example:inception-v3"), load_machine("4xv100/nvlink"))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Evaluations take SECONDS each, everything else nothing; the default has 6,000."""
    now, spend = [0.0], SearchRun.spend

    def spent(run: SearchRun, evaluations: int) -> None:
        now[0] += evaluations * SECONDS
        spend(run, evaluations)

    monkeypatch.setattr(SearchRun, "spend", spent)
    monkeypatch.setattr("time.perf_counter", lambda: now[0])
    monkeypatch.setattr(auto, "first_evaluations", lambda problem: DEFAULT)
    monkeypatch.setattr(auto, "most_evaluations", lambda problem: DEFAULT)
    monkeypatch.setattr(default_first, "second_evaluations", lambda problem, evaluations, work: DEFAULT)


def gains(monkeypatch: pytest.MonkeyPatch, lately: bool) -> None:
    """Make every search gain lately, or none."""
    monkeypatch.setattr(SearchRun, "gained_lately", lambda run: lately)


def solve(problem: Problem, evaluations: int, seed: int = 0, threads: int = 1) -> Result:
    return Auto().solve(problem, SearchRun(Budget(evaluations=evaluations), seed=seed, threads=threads))


def limited(problem: Problem, evaluations: int, seed: int = 0) -> Result:
    """Solve within the time of that many evaluations."""
    budget = Budget(evaluations=UNLIMITED, seconds=evaluations * SECONDS)
    return Auto().solve(problem, SearchRun(budget, seed=seed))


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("evaluations", [7_000, 10_000, 30_000])
def test_a_limit_with_room_for_the_default_passes_through_its_plan(
    inception: Problem, evaluations: int, seed: int
) -> None:
    default, more = solve(inception, DEFAULT, seed), limited(inception, evaluations, seed)
    assert min(point.best for point in more.trace if point.evaluations <= DEFAULT) == default.metrics.step_time_ns
    assert more.metrics.step_time_ns <= default.metrics.step_time_ns
    assert more.evaluations == evaluations


@pytest.mark.usefixtures("clock")
def test_the_default_goes_on_where_its_first_search_still_gained(
    inception: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    gains(monkeypatch, False)
    first, enough = solve(inception, DEFAULT), solve(inception, 2 * DEFAULT)
    gains(monkeypatch, True)
    more, limited_more = solve(inception, 2 * DEFAULT), limited(inception, 6 * DEFAULT)
    assert (enough.evaluations, enough.stopped_because) == (DEFAULT, "evaluations")
    assert enough.metrics == first.metrics
    assert more.evaluations == 2 * DEFAULT
    assert more.metrics.step_time_ns < first.metrics.step_time_ns
    assert min(p.best for p in limited_more.trace if p.evaluations <= 2 * DEFAULT) == more.metrics.step_time_ns


@pytest.mark.usefixtures("clock")
def test_a_limit_of_little_more_than_the_default_has_one_search_after_the_first(
    inception: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    gains(monkeypatch, True)
    begun, anneal = [], ScheduleAnnealing.solve

    def counted(self: ScheduleAnnealing, problem: Problem, run: SearchRun) -> Result:
        begun.append(run.budget.evaluations)
        return anneal(self, problem, run)

    monkeypatch.setattr(ScheduleAnnealing, "solve", counted)
    for evaluations, searches in ((3 * DEFAULT, 2), (6 * DEFAULT, 3)):
        begun.clear()
        assert limited(inception, evaluations).evaluations == evaluations
        assert len(begun) == searches


@pytest.mark.usefixtures("clock")
def test_more_evaluations_than_the_default_has_are_spent_in_any_case(
    inception: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    for lately in (False, True):
        gains(monkeypatch, lately)
        assert solve(inception, 3 * DEFAULT).evaluations == 3 * DEFAULT


@pytest.mark.usefixtures("clock")
def test_near_the_bound_the_default_does_not_go_on(inception: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    gains(monkeypatch, True)
    best = solve(inception, DEFAULT).metrics.step_time_ns
    for bound, evaluations in ((int(best / 1.01), DEFAULT), (int(best / 1.05), 2 * DEFAULT)):
        monkeypatch.setattr(auto, "lower_bound", lambda problem, bound=bound: Bound(bound, "critical path"))
        assert solve(inception, 2 * DEFAULT).evaluations == evaluations


@pytest.mark.usefixtures("clock")
def test_a_limit_without_room_for_the_default_ends_where_it_ends(inception: Problem) -> None:
    found = limited(inception, 3000)
    assert found.stopped_because == "time"
    assert found.evaluations == 3000


@pytest.mark.usefixtures("clock")
def test_what_is_hardly_time_gets_no_second_search(inception: Problem) -> None:
    # 200 of 6,200 evaluations are left.
    found = limited(inception, 6200)
    assert found.evaluations == DEFAULT
    assert found.stopped_because == "time"


def test_the_second_search_starts_from_the_best_so_far(inception: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    baselines = run_baselines(inception, SearchRun())
    baselines.sort(key=lambda result: result.metrics.step_time_ns)
    best = replace(baselines[-1], metrics=replace(baselines[0].metrics, step_time_ns=1), stopped_because="evaluations")
    begun = []

    def found(self: ScheduleAnnealing, problem: Problem, run: SearchRun) -> Result:
        begun.append((run.seed, run.budget.evaluations, run.initial_solutions))
        run.spend(run.budget.evaluations)
        return best

    monkeypatch.setattr(ScheduleAnnealing, "solve", found)
    run = SearchRun(Budget(evaluations=5000), seed=3)
    DefaultFirst(baselines=baselines, evaluations=2000, more=2000).solve(inception, run)
    (first_seed, first, first_starts), (second_seed, second, second_starts) = begun
    assert (first, second) == (2000, 3000)
    assert first_seed == 3 != second_seed
    assert first_starts == [result.solution for result in baselines[:4]]
    assert second_starts == [best.solution, *first_starts[:3]]


@pytest.mark.usefixtures("clock")
def test_both_searches_report_their_progress_as_one(inception: Problem) -> None:
    seen: list[Progress] = []
    budget = Budget(evaluations=UNLIMITED, seconds=2 * DEFAULT * SECONDS)
    result = Auto().solve(inception, SearchRun(budget, on_progress=seen.append))
    search = [progress for progress in seen if progress.method == "schedule-annealing"]
    assert all(a.evaluations <= b.evaluations and a.best >= b.best for a, b in pairwise(search))
    assert search[0].evaluations > sum(baseline.evaluations for baseline in result.baselines)
    assert search[-1].evaluations == result.evaluations == 2 * DEFAULT
    assert search[-1].best == result.metrics.step_time_ns


def test_all_evaluations_there_are_without_a_time_limit_go_on_until_the_interrupt(inception: Problem) -> None:
    looks = count()
    result = Auto().solve(inception, SearchRun(Budget(evaluations=UNLIMITED - 1), interrupted=lambda: next(looks) > 40))
    assert result.stopped_because == "interrupted"
