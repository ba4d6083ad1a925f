"""The baselines that `auto` runs, how many candidates of each, and what a time limit takes away. Clocks are counters:
no test looks at the time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from instances import graph_of, machine_of, problem_of

from placewright.bounds import Bound, lower_bound
from placewright.importers import load_graph
from placewright.machines import load_machine
from placewright.problem import Problem, make_problem
from placewright.search import auto, portfolio
from placewright.search.auto import Auto
from placewright.search.constructive import baseline
from placewright.search.constructive.baseline import Baseline, Candidate
from placewright.search.constructive.baselines import BASELINES
from placewright.search.portfolio import run_baselines
from placewright.search.run.budget import Budget, Progress
from placewright.search.run.result import Result
from placewright.search.run.search_run import SearchRun

COSTLY = ["insertion", "cluster-list", "cluster-partition"]


@pytest.fixture(scope="module")
def training_step() -> Problem:
    """1,071 scheduled ops: planned with 20 us for each op in cheap baselines, 2 us for a candidate of insertion, 1 for
    one of cluster-list, 3.5 for one of cluster-partition, so 21.4 ms, 2.1 ms, 1.1 ms and 3.7 ms."""
    return make_problem(load_graph("example:inception-v3-train"), load_machine("2xv100/nvlink"))


class Clock:
    """A time.perf_counter() that advances only when a candidate is evaluated."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, seconds_per_candidate: float) -> None:
        self.now = 0.0
        evaluate = baseline.evaluate

        def evaluated(*arguments: Any) -> baseline.Evaluated:
            self.now += seconds_per_candidate
            return evaluate(*arguments)

        monkeypatch.setattr(baseline, "evaluate", evaluated)
        monkeypatch.setattr(time, "perf_counter", lambda: self.now)


def outcomes(results: list[Result]) -> list[tuple[str, int, list[int], str]]:
    return [(r.method, r.evaluations, r.solution.device_of.tolist(), r.stopped_because) for r in results]


def by_name(results: list[Result]) -> dict[str, Result]:
    return {result.method: result for result in results}


def test_a_second_runs_the_baselines_of_the_default_where_each_candidate_takes_4_ms(
    training_step: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Cluster-list alone has some 40 candidates, 0.16 s; all together take less than half a second.
    default = run_baselines(training_step, SearchRun())
    clock = Clock(monkeypatch, 0.004)
    limited = run_baselines(training_step, SearchRun(Budget(seconds=1.0)))
    assert clock.now > 0.15
    assert outcomes(limited) == outcomes(default)
    assert all(result.stopped_because == "complete" for result in limited)


def test_auto_hands_its_time_limit_on(training_step: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    default = Auto().solve(training_step, SearchRun(Budget(evaluations=1)))
    Clock(monkeypatch, 0.004)
    limited = Auto().solve(training_step, SearchRun(Budget(evaluations=1, seconds=1.0)))
    short = Auto().solve(training_step, SearchRun(Budget(evaluations=1, seconds=0.001)))
    assert outcomes(list(limited.baselines)) == outcomes(list(default.baselines))
    assert not by_name(list(short.baselines)).keys() & set(COSTLY)


def test_a_baseline_that_the_clock_cuts_keeps_the_candidates_it_made(
    training_step: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    # 14 ms for each candidate: half of a second is over after 36, some of them of costly baselines.
    clock = Clock(monkeypatch, 0.014)
    results = run_baselines(training_step, SearchRun(Budget(seconds=1.0)))
    assert 0.5 <= clock.now < 0.5 + 0.03
    assert [by_name(results)[name].stopped_because for name in COSTLY] == ["time"] * 3
    for result in results:
        alone = next(method for method in BASELINES if method.name == result.method)
        same = alone.solve(training_step, SearchRun(Budget(evaluations=result.evaluations)))
        assert np.array_equal(same.solution.device_of, result.solution.device_of)
        assert same.metrics == result.metrics


def test_auto_is_no_worse_than_any_baseline_that_a_limit_left_half_made(
    training_step: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    Clock(monkeypatch, 0.014)
    result = Auto().solve(training_step, SearchRun(Budget(evaluations=100, seconds=1.0)))
    assert len(result.baselines) == len(BASELINES)
    assert result.metrics.step_time_ns <= min(b.metrics.step_time_ns for b in result.baselines)


def test_a_costly_candidate_begins_only_where_what_it_takes_is_left(
    training_step: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Half of 2 ms is less than any takes; half of 6 ms is less than one of cluster-partition takes.
    Clock(monkeypatch, 0.0)
    cheap = [method.name for method in BASELINES if method.name not in COSTLY]
    assert [result.method for result in run_baselines(training_step, SearchRun(Budget(seconds=0.002)))] == cheap
    some = by_name(run_baselines(training_step, SearchRun(Budget(seconds=0.006))))
    assert some.keys() & set(COSTLY) == {"insertion", "cluster-list"}


def test_under_a_time_limit_some_costly_candidates_come_before_the_cheap_ones(
    training_step: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    # 4 ms for each candidate: two thirds of half of 60 ms are over after five of them, all while the cheap ones make
    # theirs.
    Clock(monkeypatch, 0.004)
    seen: list[Progress] = []
    results = run_baselines(training_step, SearchRun(Budget(seconds=0.06), on_progress=seen.append))
    costly = ["insertion", "cluster-list", "layers", "cluster-partition", "cluster-list"]
    assert [progress.method for progress in seen[:6]] == [*costly, "input-order"]
    assert [result.method for result in results] == [method.name for method in BASELINES]
    assert [by_name(results)[name].stopped_because for name in COSTLY] == ["time"] * 3


@pytest.mark.parametrize("threads", [1, 2])
def test_a_time_limit_too_short_for_the_bound_goes_without(
    training_step: Problem, monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    # It is planned with 40 us for each op, 43 ms: a tenth of a second, or half where it stands beside the baselines.
    bounded: list[Problem] = []

    def counted(problem: Problem) -> Bound:
        bounded.append(problem)
        return lower_bound(problem)

    monkeypatch.setattr(auto, "lower_bound", counted)
    for seconds, number in ((0.08, 0), (0.2, threads - 1), (0.5, 1), (None, 1)):
        bounded.clear()
        result = Auto().solve(training_step, SearchRun(Budget(evaluations=1, seconds=seconds), threads=threads))
        assert len(bounded) == number
        assert result.metrics.bytes_over_limit == 0


def test_a_second_has_time_for_the_memory_bound_of_more_ops_than_for_that_of_the_step_time() -> None:
    # 3,000 ops: 40 us each for the bound on the step time are more than a tenth of a second, 8 us are not.
    chain = graph_of({f"op{i}": (f"op{i - 1}" if i else "", 8) for i in range(3000)})
    for objective, fits in (("step-time", False), ("peak-memory", True)):
        problem = problem_of(chain, machine_of(1), 1, objective=objective)
        assert auto._has_time_for_bound(problem, SearchRun(Budget(seconds=1.0))) == fits


def test_where_baselines_agree_a_second_has_time_for_the_bound_of_more_ops(monkeypatch: pytest.MonkeyPatch) -> None:
    # Nothing is better than one device, on which all orders take as long.
    Clock(monkeypatch, 0.0)
    chain = graph_of({f"op{i}": (f"op{i - 1}" if i else "", 8) for i in range(3000)})
    result = Auto().solve(problem_of(chain, machine_of(2), 1), SearchRun(Budget(evaluations=10_000, seconds=1.0)))
    assert result.stopped_because == "optimal"
    assert result.evaluations == sum(baseline.evaluations for baseline in result.baselines)


def test_every_cheap_baseline_makes_a_candidate_after_the_limit_too(
    training_step: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The first candidate alone, one of insertion, takes a second.
    Clock(monkeypatch, 1.0)
    results = run_baselines(training_step, SearchRun(Budget(seconds=0.1)))
    left_out = ("cluster-list", "cluster-partition")
    assert [result.method for result in results] == [m.name for m in BASELINES if m.name not in left_out]
    assert all(result.evaluations <= 3 for result in results)  # transfers late, early and in batches


class Thrice(Baseline):
    """A baseline that proposes the same devices for two ops, three times."""

    def __init__(self, name: str, devices: list[int]) -> None:
        self.name, self._devices = name, devices

    def candidates(self, problem: Problem) -> Iterator[Candidate]:
        placed, order = np.array(self._devices, np.int32), np.arange(2, dtype=np.int32)
        return (Candidate(name="same", device_of=placed, order=order) for _ in range(3))


@pytest.mark.parametrize("costs", [(1_000, 1_000), (10_000, 1_000), (1_000, 10_000)])
def test_after_one_candidate_of_each_the_best_of_the_costly_ones_goes_on(
    costs: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Two ops of 1 ns that need nothing of each other: on one device they take 2 ns, on two 1 ns.
    problem = problem_of(graph_of({"a": ("", 0), "b": ("", 0)}), machine_of(2))
    together, apart = Thrice("together", [0, 0]), Thrice("apart", [0, 1])
    monkeypatch.setattr(portfolio, "BASELINES", (together, apart))
    monkeypatch.setattr(portfolio, "_COSTLY", dict(zip((together, apart), costs, strict=True)))
    seen: list[Progress] = []
    run_baselines(problem, SearchRun(on_progress=seen.append))
    assert [progress.method for progress in seen] == ["together", *["apart"] * 3, *["together"] * 2]


def test_without_a_limit_the_costly_baselines_come_before_the_cheap_ones_too(training_step: Problem) -> None:
    seen: list[Progress] = []
    run_baselines(training_step, SearchRun(on_progress=seen.append))
    methods = [progress.method for progress in seen]
    first = methods.index("input-order")
    assert set(methods[:first]) == {*COSTLY, "layers"}
    assert not set(methods[first:]) & {*COSTLY, "layers"}
    assert [p.best for p in seen] == sorted((p.best for p in seen), reverse=True)


def test_without_a_limit_no_clock_decides(training_step: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    default = outcomes(run_baselines(training_step, SearchRun()))
    Clock(monkeypatch, 1000.0)
    assert outcomes(run_baselines(training_step, SearchRun())) == default


def test_after_an_interrupt_no_baseline_begins(training_step: Problem) -> None:
    results = run_baselines(training_step, SearchRun(interrupted=lambda: True))
    assert [result.method for result in results] == ["input-order"]
