"""Run jobs in workers and keep every row as it comes; a worker that dies costs one row at most."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from placewright.lab.bench.protocol import BenchSuite, Run
from placewright.lab.bench.rows import Key, Results, Row
from placewright.lab.bench.work import BenchWorker, Failure, Job, Message
from placewright.lab.processes import ActorLostError, ProcessActor, ProcessActors
from placewright.support.errors import PlacewrightError, shown

#: Number of attempts at a run whose worker dies.
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
    """Return every solver under every limit with every seed, once each; without limits for methods that use neither.

    codes: the code digest of each solver, for its rows. Raises InputError for an unknown solver.
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
    """Return a job per instance that lacks rows, with the missing runs."""
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
    """Return the keys of existing rows that these runs would make with different code."""
    wanted = {run.key(labels[instance]): run.code for instance in instances for run in runs}
    return [key for key, row in rows.items() if key in wanted and row.code != wanted[key]]


@dataclass(kw_only=True, eq=False)
class _Seat:
    """A worker with its job and the unanswered runs of it, the current one first. pending: that run's answer."""

    worker: ProcessActor
    job: Job | None = None
    unanswered: deque[Run] = field(default_factory=deque)
    pending: ProcessActor | None = None


class Pool:
    """A number of workers, which get one run at a time, so that the death of a worker costs no more.

    The constructor and `run` raise InputError when no more workers can be started. arguments: of `BenchWorker`.
    """

    def __init__(self, actors: ProcessActors, num_workers: int, *arguments: Any) -> None:
        self._actors, self._arguments = actors, arguments
        self._seats = [_Seat(worker=actors.make(BenchWorker, *arguments)) for _ in range(num_workers)]

    def run(
        self, jobs: Sequence[Job], results: Results, on_row: OnRow, on_failure: OnFailure, on_death: OnDeath
    ) -> None:
        """Work through the jobs. Each row is in `results` before `on_row` is called.

        Raises InputError when rows cannot be kept any more, a solver's package is missing or the suite is unreadable.
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
            seat, job, pending = self._ready()
            try:
                message: Message = self._actors.get(pending)
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

    def _ready(self) -> tuple[_Seat, Job, ProcessActor]:
        """Return a worker that has answered or died, with its job and answer."""
        busy = [
            (seat, seat.job, seat.pending) for seat in self._seats if seat.job is not None and seat.pending is not None
        ]
        place = self._actors.first([pending for *_, pending in busy])
        assert place is not None
        return busy[place]

    def _replace(self, seat: _Seat) -> None:
        self._actors.end(seat.worker)
        self._seats.remove(seat)
        self._seats.append(_Seat(worker=self._actors.make(BenchWorker, *self._arguments)))


def _ask(seat: _Seat) -> None:
    """Ask for the next run of the job, or end the job."""
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
    """Return the job that is left after its worker died at the first of its unanswered runs. how: "was killed ..."."""
    fatal = unanswered[0]
    deaths[fatal.key(job.label)] += 1
    if deaths[fatal.key(job.label)] < _ATTEMPTS:
        on_death(f"the worker at '{fatal.solver}' on '{job.label}' {how}; the run is tried once more")
    else:
        on_failure(Failure(label=job.label, run=fatal, reason=f"its worker {how}, {_ATTEMPTS} times"))
        unanswered.popleft()
    left = tuple(unanswered)
    return [Job(instance=job.instance, label=job.label, runs=left)] if left else []
