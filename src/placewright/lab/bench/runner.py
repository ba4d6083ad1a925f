"""Runs jobs in workers and keeps every row as it comes; a worker that dies costs one row at most."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic

from placewright.lab.bench.protocol import BenchSuite, Run
from placewright.lab.bench.rows import Key, Results, Row
from placewright.lab.bench.work import Done, Failure, Job, Message, Refusal
from placewright.lab.bench.workers import W, WorkerDiedError, Workers
from placewright.support.errors import InputError

#: How often a run whose worker died is tried.
_ATTEMPTS = 2

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
class _Seat(Generic[W]):
    """A worker with the job it has and the runs of it that are not answered yet, the one at work first."""

    worker: W
    job: Job | None = None
    unanswered: deque[Run] = field(default_factory=deque)


class Pool(Generic[W]):
    """So many workers of a kind. A context: within it they live, at its end none is left.

    Entering it and `run` raise InputError when no more workers can be started.
    """

    def __init__(self, workers: Workers[W], num_workers: int) -> None:
        self._kind, self._num_workers = workers, num_workers
        self._seats: list[_Seat[W]] = []

    def __enter__(self) -> Pool[W]:
        try:
            for _ in range(self._num_workers):
                self._seats.append(_Seat(worker=self._kind.start()))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._kind.end([seat.worker for seat in self._seats])

    def run(
        self, jobs: Sequence[Job], results: Results, on_row: OnRow, on_failure: OnFailure, on_death: OnDeath
    ) -> None:
        """Works through the jobs. Rows are in `results` when `on_row` hears of them.

        Raises InputError when rows cannot be kept any more, a solver's package is missing or the suite unreadable.
        """
        waiting = deque(jobs)
        deaths: Counter[Key] = Counter()
        while True:
            for seat in self._seats:
                if seat.job is None and not seat.worker.waits_for:
                    _assign(seat, waiting)
            if not waiting and all(seat.job is None for seat in self._seats):
                return
            busy = [seat for seat in self._seats if seat.job is not None or seat.worker.waits_for]
            if all(seat.worker.waits_for for seat in busy):
                on_death(f"no worker is left; waiting for {busy[0].worker.waits_for}")
            ready = self._kind.ready([seat.worker for seat in busy])
            for seat in (seat for seat in busy if seat.worker in ready):
                try:
                    message = seat.worker.receive()
                except WorkerDiedError as death:
                    waiting.extendleft(_bury(seat, str(death), deaths, on_failure, on_death))
                    self._seats.remove(seat)
                    self._seats.append(_Seat(worker=self._kind.start()))
                else:
                    _take(seat, message, results, on_row, on_failure)


def _assign(seat: _Seat[W], waiting: deque[Job]) -> None:
    if waiting:
        seat.job = waiting.popleft()
        seat.unanswered = deque(seat.job.runs)
        seat.worker.send(seat.job)


def _take(seat: _Seat[W], message: Message, results: Results, on_row: OnRow, on_failure: OnFailure) -> None:
    if isinstance(message, Refusal):
        raise InputError(message.reason)
    if isinstance(message, Done):
        seat.job = None
        return
    if isinstance(message, Row):
        results.add(message)
        on_row(message)
    else:
        on_failure(message)
    seat.unanswered.popleft()


def _bury(seat: _Seat[W], how: str, deaths: Counter[Key], on_failure: OnFailure, on_death: OnDeath) -> list[Job]:
    """The job that is left to do after the worker died at the first of its unanswered runs. how: "was killed ..."."""
    job = seat.job
    assert job is not None
    if not seat.unanswered:
        return []
    fatal = seat.unanswered[0]
    deaths[fatal.key(job.label)] += 1
    if deaths[fatal.key(job.label)] < _ATTEMPTS:
        on_death(f"the worker at '{fatal.solver}' on '{job.label}' {how}; the run is tried once more")
    else:
        on_failure(Failure(label=job.label, run=fatal, reason=f"its worker {how}, {_ATTEMPTS} times"))
        seat.unanswered.popleft()
    left = tuple(seat.unanswered)
    return [Job(instance=job.instance, label=job.label, runs=left)] if left else []
