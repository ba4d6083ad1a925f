"""One search several times, each from a seed and in a thread of its own: the best of them is the result."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Protocol

import numpy as np

from placewright.problem import Problem
from placewright.search.budget import Interrupted, OnProgress, Progress
from placewright.search.result import Result, TracePoint


class Search(Protocol):
    """A method but for what does not depend on the seed."""

    def __call__(self, seed: int, *, on_progress: OnProgress | None, interrupted: Interrupted | None) -> Result: ...


def best_side_by_side(
    search: Search,
    problem: Problem,
    seed: int,
    threads: int,
    *,
    on_progress: OnProgress | None = None,
    interrupted: Interrupted | None = None,
) -> Result:
    """The best of as many runs as there are threads, with the evaluations of all. The first has the seed itself, so the
    result is seldom worse than without the others. When one ends before it is told to, because nothing is left to find,
    the others end too. `on_progress` is called by one thread at a time, `interrupted` by all."""
    if threads == 1:
        return search(seed, on_progress=on_progress, interrupted=interrupted)
    began = time.perf_counter()
    seeds = [seed, *(int(s) for s in np.random.SeedSequence(seed).generate_state(threads - 1, np.uint64))]
    progress = _Progress(threads, on_progress)
    nothing_left = threading.Event()

    def run(index: int) -> Result:
        try:
            result = search(
                seeds[index],
                on_progress=lambda state: progress.report(index, state),
                interrupted=lambda: nothing_left.is_set() or (interrupted is not None and interrupted()),
            )
        except BaseException:
            nothing_left.set()
            raise
        if result.stopped_because in ("optimal", "complete"):
            nothing_left.set()
        return result

    with ThreadPoolExecutor(threads) as pool:
        try:
            results = list(pool.map(run, range(threads)))
        except BaseException:
            nothing_left.set()
            raise
    # Of equals the one that ended by itself, if one did: then the others were interrupted.
    best = min(results, key=lambda r: (r.metrics.fitness(problem.objective), r.stopped_because == "interrupted"))
    return replace(
        best,
        seed=seed,
        evaluations=sum(result.evaluations for result in results),
        seconds=time.perf_counter() - began,
        trace=_best_over_time(results),
        proven_bound=max((r.proven_bound for r in results if r.proven_bound is not None), default=None),
    )


class _Progress:
    """What several searches report, as if they were one."""

    def __init__(self, searches: int, on_progress: OnProgress | None) -> None:
        self._on_progress = on_progress
        self._last: list[Progress | None] = [None] * searches
        self._lock = threading.Lock()

    def report(self, index: int, progress: Progress) -> None:
        if self._on_progress is None:
            return
        with self._lock:
            self._last[index] = progress
            known = [last for last in self._last if last is not None]
            best = min(known, key=lambda last: (last.bytes_over_limit, last.best))
            self._on_progress(
                replace(best, evaluations=sum(last.evaluations for last in known), seconds=progress.seconds)
            )


def _best_over_time(results: Sequence[Result]) -> tuple[TracePoint, ...]:
    """One trace of several: a point wherever the best of all changes, with the evaluations of all."""
    evaluations = [0] * len(results)
    trace: list[TracePoint] = []
    points = [(point, index) for index, result in enumerate(results) for point in result.trace]
    for point, index in sorted(points, key=lambda entry: entry[0].seconds):
        evaluations[index] = point.evaluations
        if not trace or (point.bytes_over_limit, point.best) < (trace[-1].bytes_over_limit, trace[-1].best):
            trace.append(replace(point, evaluations=sum(evaluations)))
    return tuple(trace)
