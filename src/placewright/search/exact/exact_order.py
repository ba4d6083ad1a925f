"""The least peak memory on one device: an order, and the proof that none is better."""

from __future__ import annotations

from functools import partial

import numpy as np

import placewright._core as _core
from placewright.problem import Problem
from placewright.problem.objective import StopReason, status_of
from placewright.search.run.drive import drive
from placewright.search.run.result import Result, Solution, measure
from placewright.search.run.search_run import SearchRun

#: Of what is left then: with all sizes as they are, where the end is a proof of the very peak.
_EXACT_SHARE = 0.2
#: Of the peak: what is smaller counts as nothing in the rest. A few such tensors tell apart millions of sets.
_LEAST_SHARE = 2**-16
#: A set of so many ops is entered in milliseconds.
_MAX_OPS = 20_000


def is_provable(problem: Problem) -> bool:
    """Whether only the order decides, and memory is the objective."""
    core = problem.core
    return core.num_devices == 1 and core.num_ops <= _MAX_OPS and problem.objective == "peak-memory"


def proven(problem: Problem, result: Result, run: SearchRun) -> Result:
    """The result or a better one, with a bound where the budget lasts to the end of the search.

    It looks, depth first, through sets of finished ops for an order whose peak is below the best so far (dynamic
    programming as in Ahn et al., Ordering Chaos, MLSys 2020); docs/algorithms.md says what makes the sets few. One
    evaluation is one set. run: of the method whose result it is.
    """
    for share, least_share in ((_EXACT_SHARE, 0.0), (1.0, _LEAST_SHARE)):
        if run.evaluations_left == 0:
            break
        search = _core.ExactOrder(
            problem=problem.core,
            start=np.ascontiguousarray(result.solution.order[:, 0]),
            least_bytes=int(least_share * result.metrics.peak_memory_bytes),
        )
        reason = drive(run.part(share), search, result.method, is_exhausted=partial(getattr, search, "is_exhausted"))
        result = _improved(problem, result, search, reason, run)
        if search.is_exhausted or reason in ("optimal", "interrupted"):
            break
    return result


def _improved(problem: Problem, result: Result, search: _core.ExactOrder, reason: StopReason, run: SearchRun) -> Result:
    device_of, order = search.best()
    solution = Solution(device_of=device_of, order=order)
    metrics = measure(problem, solution)
    bound = search.bound_bytes if search.is_exhausted else None
    status = status_of(metrics.peak_memory_bytes, metrics.bytes_over_limit, bound)
    return run.result(
        problem,
        result.method,
        solution,
        stopped_because="optimal" if status == "optimal" else reason,
        configuration=result.configuration,
        proven_bound=bound,
    )
