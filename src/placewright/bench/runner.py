"""Runs jobs in worker processes and keeps every row as it comes; a worker that dies costs one row at most."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

from placewright.bench.protocol import BenchSuite, Run
from placewright.bench.rows import Key, Results, Row
from placewright.bench.work import Done, Failure, Job, Message, Refusal, serve
from placewright.support.errors import InputError

#: How often a run whose worker died is tried.
_ATTEMPTS = 2
#: Read by OpenBLAS, which numpy's wheels come with.
_THREADS_FOR_PRODUCTS = "OPENBLAS_NUM_THREADS"

OnRow = Callable[[Row], None]
OnFailure = Callable[[Failure], None]
OnDeath = Callable[[str], None]


def plan_runs(
    suite: BenchSuite,
    solvers: Sequence[str],
    evaluations: Sequence[int],
    seconds: Sequence[float],
    num_seeds: int,
    codes: Mapping[str, str] | None = None,
) -> list[Run]:
    """Every solver under every limit with every seed, once each; without limits for methods that use neither.

    codes: of each solver, which its rows are to name. Raises InputError for a solver there is none of.
    """
    limits: list[tuple[int | None, float | None]] = [(limit, None) for limit in dict.fromkeys(evaluations)]
    limits += [(None, limit) for limit in dict.fromkeys(seconds)]
    runs: list[Run] = []
    for solver in dict.fromkeys(solvers):
        code = (codes or {}).get(solver, "")
        if suite.is_limited(solver):
            runs += [
                Run(solver=solver, evaluations=count, seconds=limit, seed=seed, code=code)
                for count, limit in limits
                for seed in range(num_seeds)
            ]
        else:
            runs.append(Run(solver=solver, evaluations=None, seconds=None, seed=0, code=code))
    return runs


def missing_jobs(
    labels: Sequence[str], instances: Iterable[int], runs: Sequence[Run], have: Iterable[Key]
) -> list[Job]:
    """A job per instance that lacks rows, with the runs it lacks."""
    present = set(have)
    jobs = []
    for instance in instances:
        label = labels[instance]
        missing = tuple(run for run in runs if run.key(label) not in present)
        if missing:
            jobs.append(Job(instance=instance, label=label, runs=missing))
    return jobs


def stale_keys(
    labels: Sequence[str], instances: Iterable[int], runs: Sequence[Run], rows: Mapping[Key, Row]
) -> list[Key]:
    """Of the rows that these runs would make, those there are of another code."""
    wanted = {run.key(labels[instance]): run.code for instance in instances for run in runs}
    return [key for key, row in rows.items() if key in wanted and row.code != wanted[key]]


@dataclass(kw_only=True, eq=False)
class _Worker:
    """A process with the job it has and the runs of it that are not answered yet, the one at work first."""

    process: BaseProcess
    connection: Connection
    job: Job | None = None
    unanswered: deque[Run] = field(default_factory=deque)


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Processes started here do not hear Ctrl-C until they say so; ours is heard at the end."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _one_thread_for_products() -> Iterator[None]:
    """Processes started here multiply matrices in one thread: more of them would count as processor time while they
    wait, and work where another worker is measured."""
    before = os.environ.get(_THREADS_FOR_PRODUCTS)
    os.environ[_THREADS_FOR_PRODUCTS] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_THREADS_FOR_PRODUCTS]
        else:
            os.environ[_THREADS_FOR_PRODUCTS] = before


class Pool:
    """So many workers on one suite; devices and dims as `find_suite` takes them, plugins as `load_plugins` does.

    A context: within it they live, at its end none is left.

    Entering it and `run` raise InputError when the system allows no more processes.
    """

    def __init__(
        self,
        suite_path: Path,
        num_workers: int,
        devices: str | None = None,
        plugins: Sequence[Path] = (),
        dims: Mapping[str, int] | None = None,
    ) -> None:
        self._context = multiprocessing.get_context("spawn")
        self._suite_path = suite_path
        self._devices = devices
        self._dims = dict(dims or {})
        self._plugins = tuple(plugins)
        self._num_workers = num_workers
        self._workers: list[_Worker] = []

    def __enter__(self) -> Pool:
        try:
            # The first process would start it, and with it hear Ctrl-C again.
            resource_tracker.ensure_running()
            for _ in range(self._num_workers):
                self._workers.append(self._start())
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            worker.process.terminate()
        for worker in self._workers:
            worker.process.join()
            worker.connection.close()

    def run(
        self, jobs: Sequence[Job], results: Results, on_row: OnRow, on_failure: OnFailure, on_death: OnDeath
    ) -> None:
        """Works through the jobs. Rows are in `results` when `on_row` hears of them.

        Raises InputError when rows cannot be kept any more, a solver's package is missing or the suite unreadable.
        """
        waiting = deque(jobs)
        deaths: Counter[Key] = Counter()
        for worker in self._workers:
            _assign(worker, waiting)
        while busy := [worker for worker in self._workers if worker.job is not None]:
            ready = wait([worker.connection for worker in busy])
            for worker in (worker for worker in busy if worker.connection in ready):
                try:
                    message: Message = worker.connection.recv()
                except (EOFError, ConnectionResetError):
                    waiting.extendleft(_bury(worker, deaths, on_failure, on_death))
                    self._replace(worker)
                    _assign(self._workers[-1], waiting)
                    continue
                _take(worker, message, results, on_row, on_failure)
                if worker.job is None:
                    _assign(worker, waiting)

    def _start(self) -> _Worker:
        try:
            ours, theirs = self._context.Pipe()
            arguments = (self._suite_path, self._devices, self._dims, self._plugins, theirs)
            process = self._context.Process(target=serve, args=arguments, daemon=True)
            with theirs, _interrupts_blocked(), _one_thread_for_products():
                process.start()
        except OSError as error:
            raise InputError(f"cannot start worker {len(self._workers) + 1}: {error.strerror}") from error
        return _Worker(process=process, connection=ours)

    def _replace(self, dead: _Worker) -> None:
        dead.connection.close()
        self._workers.remove(dead)
        self._workers.append(self._start())


def _assign(worker: _Worker, waiting: deque[Job]) -> None:
    if waiting:
        worker.job = waiting.popleft()
        worker.unanswered = deque(worker.job.runs)
        # A worker that died is found out when its answers are waited for.
        with suppress(BrokenPipeError, ConnectionResetError):
            worker.connection.send(worker.job)


def _take(worker: _Worker, message: Message, results: Results, on_row: OnRow, on_failure: OnFailure) -> None:
    if isinstance(message, Refusal):
        raise InputError(message.reason)
    if isinstance(message, Done):
        worker.job = None
        return
    if isinstance(message, Row):
        results.add(message)
        on_row(message)
    else:
        on_failure(message)
    worker.unanswered.popleft()


def _bury(worker: _Worker, deaths: Counter[Key], on_failure: OnFailure, on_death: OnDeath) -> list[Job]:
    """The job that is left to do after the worker died at the first of its unanswered runs."""
    worker.process.join()
    job = worker.job
    assert job is not None
    code = worker.process.exitcode or 0
    how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
    if not worker.unanswered:
        return []
    fatal = worker.unanswered[0]
    deaths[fatal.key(job.label)] += 1
    if deaths[fatal.key(job.label)] < _ATTEMPTS:
        on_death(f"the worker at '{fatal.solver}' on '{job.label}' {how}; the run is tried once more")
    else:
        on_failure(Failure(label=job.label, run=fatal, reason=f"its worker {how}, {_ATTEMPTS} times"))
        worker.unanswered.popleft()
    left = tuple(worker.unanswered)
    return [Job(instance=job.instance, label=job.label, runs=left)] if left else []
