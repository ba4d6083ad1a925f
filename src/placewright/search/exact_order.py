"""The least peak memory on one device: an order, and the proof that none is better."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial

import numpy as np

import placewright._core as _core
from placewright.problem import Problem
from placewright.problem.objective import status_of
from placewright.search.budget import Budget, Interrupted, OnProgress
from placewright.search.pausable import Run, run
from placewright.search.result import Result, Solution, measure

#: Of what is left then: with all sizes as they are, where the end is a proof of the very peak.
_EXACT_SHARE = 0.2
#: Of the peak: what is smaller counts as nothing in the rest. A few such tensors tell apart millions of sets.
_LEAST_SHARE = 2**-16
#: A set of so many ops is entered in milliseconds.
_MOST_OPS = 20_000


def is_provable(problem: Problem) -> bool:
    """Whether only the order decides, and memory is the objective."""
    core = problem.core
    return core.num_devices == 1 and core.num_ops <= _MOST_OPS and problem.objective == "peak-memory"


def proven(
    problem: Problem,
    result: Result,
    budget: Budget,
    began: float,
    on_progress: OnProgress | None,
    interrupted: Interrupted | None,
) -> Result:
    """The result or a better one, with a bound where the budget lasts to the end of the search.

    It looks, depth first, through sets of finished ops for an order whose peak is below the best so far (dynamic
    programming as in Ahn et al., Ordering Chaos, MLSys 2020); docs/algorithms.md says what makes the sets few. One
    evaluation is one set. began: time.perf_counter() at the start of the method whose result it is.
    """

    def searched(result: Result, share: float, least_share: float) -> tuple[Result, bool]:
        search = _core.ExactOrder(
            problem=problem.core,
            start=np.ascontiguousarray(result.solution.order[:, 0]),
            least_bytes=int(least_share * result.metrics.peak_memory_bytes),
        )
        part = _until(budget, share, result.evaluations, time.perf_counter() - began)
        spent, name = result.evaluations, result.method
        exhausted = partial(getattr, search, "is_exhausted")
        ran = run(search, name, part, began, on_progress, interrupted, spent=spent, is_exhausted=exhausted)
        has_ended = search.is_exhausted or ran.stopped_because in ("optimal", "interrupted")
        return _improved(problem, result, search, ran, began), has_ended

    for share, least_share in ((_EXACT_SHARE, 0.0), (1.0, _LEAST_SHARE)):
        if result.evaluations < budget.evaluations:
            result, has_ended = searched(result, share, least_share)
            if has_ended:
                break
    return result


def _until(budget: Budget, share: float, spent: int, elapsed: float) -> Budget:
    """The budget, but only a share of what is left of it."""
    return replace(
        budget,
        evaluations=min(budget.evaluations, spent + max(1, int((budget.evaluations - spent) * share))),
        seconds=None if budget.seconds is None else elapsed + (budget.seconds - elapsed) * share,
    )


def _improved(problem: Problem, result: Result, search: _core.ExactOrder, ran: Run, began: float) -> Result:
    ops = search.best_ops()
    solution = Solution(device_of=result.solution.device_of, order=np.stack([ops, np.full_like(ops, -1)], axis=1))
    metrics = measure(problem, solution)
    bound = search.bound_bytes if search.is_exhausted else None
    status = status_of(metrics.peak_memory_bytes, metrics.bytes_over_limit, bound)
    return replace(
        result,
        solution=solution,
        metrics=metrics,
        evaluations=result.evaluations + search.evaluations,
        seconds=time.perf_counter() - began,
        stopped_because="optimal" if status == "optimal" else ran.stopped_because,
        trace=result.trace + ran.trace,
        proven_bound=bound,
    )
