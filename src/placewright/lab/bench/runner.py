"""Runs jobs in workers and keeps every row as it comes; a worker that dies costs one row at most."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from placewright.lab.actors import Actor, ActorLostError, Actors, Pending
from placewright.lab.bench.protocol import BenchSuite, Run
from placewright.lab.bench.rows import Key, Results, Row
from placewright.lab.bench.work import BenchWorker, Failure, Job, Message
from placewright.support.errors import PlacewrightError, shown

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
class _Seat:
    """A worker with the job it has and the runs of it that are not answered yet, the one at work first. pending: that
    run's answer; without a job, that a new worker has started."""

    worker: Actor
    job: Job | None = None
    unanswered: deque[Run] = field(default_factory=deque)
    pending: Pending | None = None


class Pool:
    """So many workers, which are asked run by run, so that the death of one costs no more.

    Making it and `run` raise InputError when no more workers can be started. arguments: of `BenchWorker`.
    """

    def __init__(self, actors: Actors, num_workers: int, *arguments: Any) -> None:
        self._actors, self._arguments = actors, arguments
        self._seats = [_Seat(worker=actors.make(BenchWorker, *arguments)) for _ in range(num_workers)]
        actors.wait_for_start([seat.worker for seat in self._seats])  # at once: each imports for seconds

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
                if seat.pending is None and waiting:
                    seat.job = waiting.popleft()
                    seat.unanswered = deque(seat.job.runs)
                    _ask(seat)
            if not waiting and all(seat.job is None for seat in self._seats):
                return
            seat = self._ready(on_death)
            job = seat.job
            if job is None:
                self._actors.wait_for_start([seat.worker])
                seat.pending = None
                continue
            try:
                message: Message = self._actors.get(seat.pending)
            except ActorLostError as death:
                how = str(death)
            except PlacewrightError:
                raise
            except Exception as error:
                how = f"failed: {shown(str(error))}"
            else:
                _take(seat, message, results, on_row, on_failure)
                _ask(seat)
                continue
            waiting.extendleft(_bury(job, seat.unanswered, how, deaths, on_failure, on_death))
            self._replace(seat)

    def _ready(self, on_death: OnDeath) -> _Seat:
        """One that has answered or died. Raises PlacewrightError where none lives, and none can take their place."""
        busy = [seat for seat in self._seats if seat.pending is not None]
        seconds = None
        if all(seat.job is None for seat in busy):
            seconds = self._actors.seconds_to_start
            on_death(f"no worker is left; waiting for {self._actors.needed_to_start}")
        place = self._actors.first([seat.pending for seat in busy], seconds)
        if place is None:
            raise PlacewrightError(
                f"all actors were lost, and the Ray cluster had no core for another in {seconds} s; the rows so far "
                "are kept, and the same command goes on"
            )
        return busy[place]

    def _replace(self, seat: _Seat) -> None:
        self._actors.end(seat.worker)
        self._seats.remove(seat)
        worker = self._actors.make(BenchWorker, *self._arguments)
        self._seats.append(_Seat(worker=worker, pending=self._actors.starting(worker)))


def _ask(seat: _Seat) -> None:
    """The next run of its job, or the end of that."""
    if seat.job is None or not seat.unanswered:
        seat.job, seat.pending = None, None
        return
    seat.pending = seat.worker.ask("answer", seat.job.instance, seat.job.label, seat.unanswered[0])


def _take(seat: _Seat, message: Message, results: Results, on_row: OnRow, on_failure: OnFailure) -> None:
    if isinstance(message, Row):
        results.add(message)
        on_row(message)
    else:
        on_failure(message)
    if isinstance(message, Failure) and message.run is None:
        seat.unanswered.clear()
    else:
        seat.unanswered.popleft()


def _bury(
    job: Job, unanswered: deque[Run], how: str, deaths: Counter[Key], on_failure: OnFailure, on_death: OnDeath
) -> list[Job]:
    """The job that is left to do after its worker died at the first of its unanswered runs. how: "was killed ..."."""
    fatal = unanswered[0]
    deaths[fatal.key(job.label)] += 1
    if deaths[fatal.key(job.label)] < _ATTEMPTS:
        on_death(f"the worker at '{fatal.solver}' on '{job.label}' {how}; the run is tried once more")
    else:
        on_failure(Failure(label=job.label, run=fatal, reason=f"its worker {how}, {_ATTEMPTS} times"))
        unanswered.popleft()
    left = tuple(unanswered)
    return [Job(instance=job.instance, label=job.label, runs=left)] if left else []
