"""Annealing for the least peak memory, with moves aimed at the peak, and transfers inserted by eviction on demand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice

import numpy as np
from numpy.typing import NDArray

import placewright._core as _core
from placewright.problem import Problem
from placewright.problem.objective import StopReason, status_of
from placewright.search.constructive.contiguous_split import ContiguousSplit
from placewright.search.constructive.one_device import INPUT_ORDER
from placewright.search.run.drive import drive
from placewright.search.run.result import Result, Solution, measure
from placewright.search.run.search_run import SearchRun, settings_of
from placewright.support.errors import InputError

#: Share of the budget left then that goes to a search with exact sizes, which proves the very peak.
_EXACT_SHARE = 0.2
#: In the rest, sizes below this share of the peak count as nothing. A few such tensors distinguish millions of sets.
_LEAST_SHARE = 2**-16
#: The most ops for which sets of finished ops are processed in milliseconds.
_MAX_OPS = 20_000


def is_provable(problem: Problem) -> bool:
    """True if only the order decides, and memory is the objective."""
    core = problem.core
    return core.num_devices == 1 and core.num_ops <= _MAX_OPS and problem.objective == "peak-memory"


def proven(problem: Problem, result: Result, run: SearchRun) -> Result:
    """Return the result or a better one, with a bound if the budget lasts to the end of the search.

    The search goes depth first through sets of finished ops for an order whose peak is below the best so far (dynamic
    programming as in Ahn et al., Ordering Chaos, MLSys 2020); docs/algorithms.md says why there are few such sets. One
    evaluation is one set. run: of the method that found the result.
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


#: Share of the budget for annealing where a proof follows: most gains have come by then.
_ANNEALED_SHARE = 0.5
#: Devices and an order of all ops, both int32 [num scheduled ops].
Start = tuple[NDArray[np.int32], NDArray[np.int32]]


@dataclass(frozen=True, kw_only=True)
class PeakSearch:
    """Anneals devices and an order of ops (Kirkpatrick, Gelatt & Vecchi 1983), from the best of some list schedules,
    contiguous runs and one-device orders.

    A tensor that must move leaves late, or when its device would exceed the best peak so far. Most moves take a tensor
    that is alive near the peak and put its producer after the peak, its last reader before it, or either of them on
    another device; ops that must stay before or after a moved op go with it. Bytes held near the peak count a little,
    so that plateaus have a slope. Where memory limits are not met, bytes over them come before any objective. On one
    device only the order is searched, and a move costs only what it changes, regardless of the length of the graph;
    half of the budget then goes to a proof that no order is better (`proven`). docs/algorithms.md has the argument.

    first_temperature, last_temperature: relative to the peak; falls geometrically over the evaluations of the budget.
    With more than 200,000 of them, or only a time limit, it falls in rounds, each from the best so far and twice as
    long as the one before.
    """

    name: str = "peak-search"
    first_temperature: float = 0.05
    last_temperature: float = 0.001

    def __post_init__(self) -> None:
        if not 0 < self.last_temperature <= self.first_temperature < float("inf"):
            raise InputError(
                f"temperatures must be positive and fall, not from {self.first_temperature} to {self.last_temperature}"
            )

    def solve(self, problem: Problem, run: SearchRun) -> Result:
        """Solve as `Method.solve` does."""
        proves = is_provable(problem)
        annealed = run.part(_ANNEALED_SHARE) if proves else run
        search = _core.PeakSearch(
            problem=problem.core,
            seed=run.seed,
            evaluations=annealed.budget.evaluations,
            first_temperature=self.first_temperature,
            last_temperature=self.last_temperature,
            starts=list(islice(_starts(problem), annealed.budget.evaluations)),
        )
        reason = drive(annealed, search, self.name)
        device_of, order = search.best()
        solution = Solution(device_of=device_of, order=order)
        result = run.result(problem, self.name, solution, stopped_because=reason, configuration=settings_of(self))
        return proven(problem, result, run) if proves and reason not in ("optimal", "interrupted") else result


def _starts(problem: Problem) -> Iterator[Start]:
    """Yield starts: on one device, every order. On several devices, the captured order on one of them or cut into runs,
    and every order placed op by op where the peak stays least, or, if the objective is the step time, also where an op
    finishes first."""
    core = problem.core
    captured = INPUT_ORDER.order(problem)
    yield _core.all_on(core, 0), captured
    by_memory = (_core.lpmf_order, _core.xla_list_order, _core.reverse_greedy_order)
    if core.num_devices == 1:
        yield from ((_core.all_on(core, 0), order(core)) for order in by_memory)
        return
    yield from ((cut.device_of, cut.order) for cut in ContiguousSplit().candidates(problem))
    orders = [captured, *(order(core) for order in by_memory), _core.bottom_level_order(core)]
    for least_peak in (True,) if problem.objective == "peak-memory" else (False, True):
        for ops in orders:
            yield _core.list_schedule(core, ops, least_peak)
