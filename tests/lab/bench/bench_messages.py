"""Messages of a comparison's worker, computed in this process."""

from __future__ import annotations

from placewright.lab.bench.protocol import BenchSuite
from placewright.lab.bench.work import BenchWorker, Job, Message


def messages_of(suite: BenchSuite, job: Job) -> list[Message]:
    worker = BenchWorker((), lambda: suite)
    return [worker.answer(job.instance, job.label, run) for run in job.runs]
