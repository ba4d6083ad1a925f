"""Workers that solve, fail and die."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest
from bench_messages import messages_of
from lab.learning.networks import SMALL, random_policy

from placewright.bounds import lower_bound
from placewright.importers.graph_set import write_graph_set
from placewright.lab.bench.plan_rows import policy_of
from placewright.lab.bench.protocol import Run
from placewright.lab.bench.rows import Results, Row, read_results
from placewright.lab.bench.runner import Pool, missing_jobs, plan_runs
from placewright.lab.bench.suite import Suite, read_suite
from placewright.lab.bench.suites import find_suite
from placewright.lab.bench.work import Failure, Job
from placewright.lab.datasets.synthetic import random_graph
from placewright.lab.processes import ProcessActor, ProcessActors
from placewright.methods.policy_file import find_policy
from placewright.methods.table import METHODS
from placewright.search.run.budget import Budget
from placewright.search.run.search_run import SearchRun
from placewright.support.errors import InputError, MissingExtraError, PlacewrightError
from placewright.verification.checker import check_plan

RUN = Run(solver="brkga", evaluations=200, seconds=None, seed=0)


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    path = tmp_path / "some.graphs.gz"
    write_graph_set(path, [random_graph(3, index) for index in range(3)], {})
    return path


def pool_of(actors: ProcessActors, suite: Path, workers: int = 1, suite_of: Callable[..., Any] = find_suite) -> Pool:
    return Pool(actors, workers, (), suite_of, suite)


def process_of(pool: Pool) -> BaseProcess:
    worker = pool._seats[0].worker
    assert isinstance(worker, ProcessActor)
    return worker.process


class Harness:
    """A runner of jobs on a suite that keeps the rows, failures and deaths."""

    def __init__(self, suite: Path, out: Path, suite_of: Callable[..., Any] = find_suite) -> None:
        self.suite, self.suite_of = suite, suite_of
        self.results = Results(out, read_suite(suite).header())
        self.failures: list[Failure] = []
        self.deaths: list[str] = []

    def run(self, jobs: list[Job], workers: int = 1, on_row: Callable[[Pool, Row], None] = lambda *_: None) -> None:
        with ProcessActors() as actors:
            pool = pool_of(actors, self.suite, workers, self.suite_of)
            pool.run(jobs, self.results, lambda row: on_row(pool, row), self.failures.append, self.deaths.append)


def jobs_of(suite: Path, *runs: Run) -> list[Job]:
    labels = read_suite(suite).labels
    return missing_jobs(labels, range(len(labels)), runs, [])


def test_a_row_holds_what_the_method_alone_would_give(suite: Path, tmp_path: Path) -> None:
    harness = Harness(suite, tmp_path / "r")
    harness.run(jobs_of(suite, RUN, replace(RUN, seed=1)), workers=2)
    instances = read_suite(suite)
    assert len(harness.results.rows) == 6
    for index, label in enumerate(instances.labels):
        problem = instances.problem(instances.graph(index))
        alone = METHODS["brkga"].solve(problem, SearchRun(Budget(evaluations=200), seed=1))
        row = harness.results.rows[(label, "brkga", 200, None, 1)]
        assert (row.objective, row.peak_memory_bytes) == (alone.metrics.step_time_ns, alone.metrics.peak_memory_bytes)
        assert (row.evaluations, row.stopped_because, row.status) == (200, "evaluations", "feasible")
        assert row.bound <= row.objective
    assert read_results(tmp_path / "r")[1] == list(harness.results.rows.values())


def test_a_known_optimum_is_the_bound_of_its_rows(suite: Path, tmp_path: Path) -> None:
    # Nobody proves 1 ns more than the path and the load do, but the suite says so.
    instances = read_suite(suite)
    proven = lower_bound(instances.problem(instances.graph(1))).value
    (tmp_path / "best.csv").write_text(f"graph,optimum\n{instances.labels[1]},{proven + 1}\n")
    (tmp_path / "suite.toml").write_text('graphs = "some.graphs.gz"\noptima = "best.csv"\n')
    harness = Harness(tmp_path / "suite.toml", tmp_path / "r")
    harness.run(jobs_of(tmp_path / "suite.toml", RUN)[:2])
    bounds = {row.graph: row.bound for row in harness.results.rows.values()}
    first = lower_bound(instances.problem(instances.graph(0))).value
    assert bounds == {instances.labels[0]: first, instances.labels[1]: proven + 1}


def test_methods_that_use_no_seed_run_once(suite: Path) -> None:
    runs = plan_runs(read_suite(suite), ["brkga", "etf"], [100, 200], [1.5], num_seeds=2)
    assert [run for run in runs if run.solver == "etf"] == [Run(solver="etf", evaluations=None, seconds=None, seed=0)]
    limits = [(run.evaluations, run.seconds, run.seed) for run in runs if run.solver == "brkga"]
    assert limits == [(100, None, 0), (100, None, 1), (200, None, 0), (200, None, 1), (None, 1.5, 0), (None, 1.5, 1)]
    with pytest.raises(InputError, match="there is no solver 'brkgaa'"):
        plan_runs(read_suite(suite), ["brkgaa"], [1], [], 1)


def test_limits_that_are_given_twice_run_once(suite: Path) -> None:
    assert len(plan_runs(read_suite(suite), ["brkga", "brkga"], [100, 100], [1.5, 1.5], num_seeds=1)) == 2


def test_only_missing_rows_are_wanted() -> None:
    other = replace(RUN, seed=1)
    have = [RUN.key("a"), other.key("a"), RUN.key("b")]
    jobs = missing_jobs(["a", "b", "c"], range(3), [RUN, other], have)
    assert [(job.label, job.runs) for job in jobs] == [("b", (other,)), ("c", (RUN, other))]


def fail(what: object) -> None:
    pytest.fail(str(what))


def test_a_killed_worker_is_replaced_and_its_run_made_again(suite: Path, tmp_path: Path) -> None:
    harness = Harness(suite, tmp_path / "r")
    killed: list[int] = []

    def kill_once(pool: Pool, row: Row) -> None:
        if not killed:
            pid = process_of(pool).pid
            assert pid is not None
            killed.append(pid)
            os.kill(killed[0], signal.SIGKILL)

    harness.run(jobs_of(suite, RUN, replace(RUN, seed=1, evaluations=20_000)), on_row=kill_once)
    assert len(harness.results.rows) == 6
    assert harness.deaths == [
        "the worker at 'brkga' on 'synthetic-3-0' was killed by signal 9; the run is tried once more"
    ]
    assert harness.failures == []


def test_a_worker_that_dies_before_its_first_job_is_replaced(suite: Path, tmp_path: Path) -> None:
    results = Results(tmp_path / "r", read_suite(suite).header())
    deaths: list[str] = []
    with ProcessActors() as actors:
        pool = pool_of(actors, suite)
        process = process_of(pool)
        process.kill()
        process.join()
        pool.run(jobs_of(suite, RUN), results, lambda row: None, fail, deaths.append)
    assert len(results.rows) == 3
    assert len(deaths) == 1


def test_a_suite_that_vanished_ends_the_work_with_one_sentence(suite: Path, tmp_path: Path) -> None:
    results = Results(tmp_path / "r", read_suite(suite).header())
    jobs = jobs_of(suite, RUN)
    suite.unlink()
    sentence = r"cannot read '.*some.graphs.gz': No such file"
    with ProcessActors() as actors, pytest.raises(InputError, match=sentence):
        pool_of(actors, suite).run(jobs, results, lambda row: None, fail, fail)


def test_workers_that_cannot_be_started_are_one_sentence(suite: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    actors = ProcessActors()

    def refuse() -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(actors._context, "Pipe", refuse)
    with pytest.raises(InputError, match="cannot start another worker: Too many open files"):
        pool_of(actors, suite, 2)


class DeadlySuite:
    """A suite that ends the process that asks for a missing instance, as a crash in the core would."""

    def __init__(self, path: Path) -> None:
        self._suite = read_suite(path)

    def problem_at(self, index: int) -> Any:
        return self._suite.problem_at(index) if index < 3 else os._exit(1)

    def row(self, *arguments: Any) -> Row:
        return self._suite.row(*arguments)


@pytest.mark.parametrize(
    ("suite_of", "reason"),
    [
        (find_suite, "its worker failed: range object index out of range, 2 times"),
        (DeadlySuite, "its worker ended with exit code 1, 2 times"),
    ],
)
def test_a_run_that_every_worker_fails_or_dies_at_is_given_up(
    suite: Path, tmp_path: Path, suite_of: Callable[..., Any], reason: str
) -> None:
    harness = Harness(suite, tmp_path / "r", suite_of)
    jobs = [Job(instance=99, label="gone", runs=(RUN,)), *jobs_of(suite, RUN)]
    harness.run(jobs)
    assert len(harness.results.rows) == 3
    assert [(failure.label, failure.run) for failure in harness.failures] == [("gone", RUN)]
    assert harness.failures[0].reason == reason


def test_a_plan_the_checker_refutes_gives_a_failure_and_no_row(suite: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from placewright.lab.bench import plan_rows

    monkeypatch.setattr(plan_rows, "check_plan", lambda plan, graph, time_ns: ["the start of op '3' is wrong"])
    job = jobs_of(suite, RUN)[0]
    (failure,) = messages_of(read_suite(suite), job)
    assert failure == Failure(label=job.label, run=RUN, reason="WRONG PLAN: the start of op '3' is wrong")


@pytest.mark.parametrize("error", [InputError("no limit is given"), MissingExtraError("onnx", "onnx", "reading it")])
def test_what_a_method_or_graph_says_of_its_input_is_one_sentence(
    suite: Path, monkeypatch: pytest.MonkeyPatch, error: PlacewrightError
) -> None:
    from placewright.lab.bench import plan_rows

    def refuse(*_: object, **__: object) -> None:
        raise error

    job = jobs_of(suite, RUN)[0]
    if isinstance(error, InputError):
        monkeypatch.setattr(plan_rows, "make_method", refuse)
        assert messages_of(read_suite(suite), job) == [Failure(label=job.label, run=RUN, reason="no limit is given")]
    monkeypatch.setattr(Suite, "graph", refuse)
    assert messages_of(read_suite(suite), job) == [Failure(label=job.label, run=None, reason=str(error))]


def test_a_method_that_throws_gives_a_failure_with_the_reason(suite: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from placewright.lab.bench import plan_rows

    def broken(name: str, **_: object) -> None:
        raise ZeroDivisionError("in the method")

    monkeypatch.setattr(plan_rows, "make_method", broken)
    job = jobs_of(suite, RUN, replace(RUN, seed=1))[0]
    messages = messages_of(read_suite(suite), job)
    assert [type(message) for message in messages] == [Failure, Failure]
    assert "ZeroDivisionError: in the method" in messages[0].reason  # type: ignore[union-attr]


def test_a_run_may_name_the_policy_that_guides_it(suite: Path) -> None:
    run = replace(RUN, solver="regal:runtime-synthetic", evaluations=500)
    rows = messages_of(read_suite(suite), jobs_of(suite, run)[0])
    assert [(row.solver, row.found_by) for row in rows if isinstance(row, Row)] == [
        ("regal:runtime-synthetic", f"regal: {find_policy('runtime-synthetic').title}")
    ]
    in_order = random_policy(replace(SMALL, network="autoregressive"))
    assert [policy_of(solver, [in_order]) for solver in ("regal", "idrs", "gas", "etf")] == [
        in_order,
        in_order,
        None,
        None,
    ]
    with pytest.raises(InputError, match="there is no policy 'runtime-synthetik'; did you mean runtime-synthetic"):
        plan_runs(read_suite(suite), ["regal:runtime-synthetik"], [500], [], 1)
    with pytest.raises(InputError, match="solver 'brkga' does not take policy 'runtime-synthetic'"):
        plan_runs(read_suite(suite), ["brkga:runtime-synthetic"], [500], [], 1)
    with pytest.raises(InputError, match="solver 'gas' does not take policy 'runtime-synthetic'"):
        plan_runs(read_suite(suite), ["gas:runtime-synthetic"], [500], [], 1)
    with pytest.raises(InputError, match=r"cannot read '\.'"):
        plan_runs(read_suite(suite), ["heft:"], [500], [], 1)


def test_the_checker_that_judges_rows_is_the_independent_one() -> None:
    from placewright.lab.bench import plan_rows

    assert vars(plan_rows)["check_plan"] is check_plan


def test_a_row_names_what_trained_the_policy_that_a_method_has_of_its_own(suite: Path) -> None:
    (row,) = messages_of(read_suite(suite), jobs_of(suite, replace(RUN, solver="regal", evaluations=500))[0])
    assert isinstance(row, Row)
    assert row.trained == "imitation"
