"""The least peak memory on one device: an order, and the proof that none is better."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from placewright import _core
from placewright.problem import Problem
from placewright.search.budget import Budget, Interrupted, OnProgress
from placewright.search.pausable import run
from placewright.search.result import Result, Solution, measure

#: Of the budget: what is found without proof has come by then, in most cases.
_ANNEALED_SHARE = 0.5
#: A set of so many ops is entered in milliseconds.
_MOST_OPS = 20_000


def is_provable(problem: Problem) -> bool:
    """Whether only the order decides, and memory is the objective."""
    core = problem.core
    return core.num_devices == 1 and core.num_ops <= _MOST_OPS and problem.objective == "peak-memory"


def part_to_anneal(budget: Budget) -> Budget:
    """What a search may take that leaves a proof the rest."""
    return replace(
        budget,
        evaluations=max(1, int(budget.evaluations * _ANNEALED_SHARE)),
        seconds=None if budget.seconds is None else budget.seconds * _ANNEALED_SHARE,
    )


def proven(
    problem: Problem,
    result: Result,
    budget: Budget,
    began: float,
    on_progress: OnProgress | None,
    interrupted: Interrupted | None,
) -> Result:
    """The result or a better one, with the peak as its bound where the budget lasts to the end of the search.

    It looks, depth first, through sets of finished ops for an order whose peak is below the best so far. What a set
    keeps in use does not depend on the order in it, so that none is searched twice, and an op that fits and frees at
    least what it makes runs at once (dynamic programming as in Ahn et al., Ordering Chaos, MLSys 2020); the argument
    is in docs/algorithms.md. One evaluation is one set. began: time.perf_counter() at the start of the method whose
    result it is; its evaluations count.
    """
    if result.evaluations >= budget.evaluations:
        return result
    search = _core.ExactOrder(problem=problem.core, start=np.ascontiguousarray(result.solution.order[:, 0]))
    ran = run(
        search,
        result.method,
        budget,
        began,
        on_progress,
        interrupted,
        spent=result.evaluations,
        is_proven=lambda: search.is_optimal,
    )
    ops = search.best_ops()
    solution = Solution(device_of=result.solution.device_of, order=np.stack([ops, np.full_like(ops, -1)], axis=1))
    metrics = measure(problem, solution)
    return replace(
        result,
        solution=solution,
        metrics=metrics,
        evaluations=result.evaluations + search.evaluations,
        seconds=time.perf_counter() - began,
        stopped_because=ran.stopped_because,
        trace=result.trace + ran.trace,
        proven_bound=metrics.peak_memory_bytes if search.is_optimal else None,
    )
