"""Multistart: one search runs several times, each from its own seed and in its own thread; the best result counts."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np

from placewright.problem import Problem
from placewright.search.run.method import Search
from placewright.search.run.result import Result
from placewright.search.run.search_run import SearchRun


def multistart(search: Search, problem: Problem, run: SearchRun, threads: int) -> Result:
    """Run as many searches as there are threads; return the best result with the evaluations of all. The first has the
    run's own seed, so the result is seldom worse than without the others. When one ends by itself, because nothing is
    left to find, the others end too."""
    if threads == 1:
        return search.solve(problem, run)
    seeds = [run.seed, *(int(s) for s in np.random.SeedSequence(run.seed).generate_state(threads - 1, np.uint64))]
    nothing_left = threading.Event()

    def solve(seed: int) -> Result:
        try:
            result = search.solve(problem, run.part(seed=seed, threads=1, interrupted=nothing_left.is_set))
        except BaseException:
            nothing_left.set()
            raise
        if result.stopped_because in ("optimal", "complete"):
            nothing_left.set()
        return result

    with ThreadPoolExecutor(threads) as pool:
        try:
            results = list(pool.map(solve, seeds))
        except BaseException:
            nothing_left.set()
            raise
    # Among equals, the one that ended by itself, if one did: then the others were interrupted.
    best = min(results, key=lambda r: (r.metrics.fitness(problem.objective), r.stopped_because == "interrupted"))
    return replace(
        best,
        seed=run.seed,
        evaluations=run.evaluations,
        seconds=run.seconds,
        trace=tuple(run.trace),
        proven_bound=max((r.proven_bound for r in results if r.proven_bound is not None), default=None),
    )
