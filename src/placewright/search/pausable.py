"""How a search of the core is driven, some evaluations at a time, so that limits and Ctrl-C are heeded; and what goes
into it and comes out."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from placewright.decoder import DecoderName
from placewright.problem import Problem
from placewright.proposal import Proposal
from placewright.search.budget import Budget, Interrupted, OnProgress, Progress
from placewright.search.result import Result, Solution, TracePoint, measure
from placewright.support.errors import InputError


class Pausable(Protocol):
    """A search that goes on from where it was; where it pauses does not change where it leads."""

    @property
    def evaluations(self) -> int: ...

    @property
    def best_objective(self) -> int: ...

    @property
    def best_bytes_over_limit(self) -> int: ...

    def advance(self, evaluations: int, *, at_most: int) -> None:
        """Until `evaluations` in all are spent, and at most `at_most` now."""
        ...


@dataclass(frozen=True, kw_only=True)
class Run:
    """What became of a search: why it stopped (as in Plan) and its best so far over time."""

    stopped_because: str
    trace: tuple[TracePoint, ...]


def run(
    search: Pausable,
    method: str,
    budget: Budget,
    began: float,
    on_progress: OnProgress | None,
    interrupted: Interrupted | None,
    first_batch: int = 1,
    spent: int = 0,
    is_exhausted: Callable[[], bool] = lambda: False,
) -> Run:
    """Advance `search` until the budget is spent or it is interrupted. began: time.perf_counter() at the start of the
    method. spent: evaluations of the budget gone before this search. With a time limit the search is told as many
    evaluations as it will reach at its speed so far. Where the budget has a bound, a best that meets it ends the search
    soon: it is looked for after numbers of evaluations that no clock decides, and the result stays reproducible.
    is_exhausted: whether the search has nothing left to do; then it is "complete"."""
    trace: list[TracePoint] = []
    batch, reason = first_batch, None
    look = _next_look(budget, search.evaluations)
    search_began = time.perf_counter()
    while reason is None:
        batch_began = time.perf_counter()
        seconds_left = None if budget.seconds is None else budget.seconds - (batch_began - began)
        expected = _expected_evaluations(search.evaluations, batch_began - search_began, seconds_left)
        enough = max(1, budget.evaluations - spent)
        at_most = min(batch, look - search.evaluations)
        search.advance(min(enough, max(expected, search.evaluations + batch)), at_most=at_most)
        now = time.perf_counter()
        batch = _next_batch(batch, (now - batch_began) * batch / at_most)
        _record(trace, method, search, spent, now - began, on_progress)
        reason = budget.reason_to_stop(spent + search.evaluations, now - began)
        if reason is None and interrupted is not None and interrupted():
            reason = "interrupted"
        if reason is not None or search.evaluations >= look:
            look = _next_look(budget, search.evaluations)
            if budget.is_optimal(search.best_objective, search.best_bytes_over_limit):
                reason = "optimal"
        if reason != "optimal" and is_exhausted():
            reason = "complete"
    return Run(stopped_because=reason, trace=tuple(trace))


def _next_look(budget: Budget, evaluations: int) -> int:
    """After how many evaluations the best is compared with the bound again: at most an eighth is spent in vain."""
    return 2**62 if budget.bound is None else evaluations + max(1, evaluations // 8)


def _expected_evaluations(evaluations: int, seconds: float, seconds_left: float | None) -> int:
    """How many there will be at the end, after so many in so many seconds."""
    if seconds_left is None or evaluations == 0:
        return 2**62
    return evaluations + int(evaluations / max(seconds, 1e-6) * max(0.0, seconds_left))


def result_of(
    method: str,
    configuration: Mapping[str, Any],
    problem: Problem,
    search: Pausable,
    ran: Run,
    solution: Solution,
    *,
    seed: int,
    began: float,
) -> Result:
    """The result of a search that has ended. configuration: all fields of the method; its name and threads, which
    decide nothing, are left out, and the others become JSON values."""
    return Result(
        method=method,
        solution=solution,
        metrics=measure(problem, solution),
        found_by=method,
        evaluations=search.evaluations,
        seconds=time.perf_counter() - began,
        stopped_because=ran.stopped_because,
        seed=seed,
        configuration={
            name: list(value) if isinstance(value, tuple) else value
            for name, value in configuration.items()
            if name not in ("name", "threads")
        },
        trace=ran.trace,
    )


def key_distributions(problem: Problem, proposal: Proposal | None, decoder: DecoderName) -> dict[str, Any]:
    """The arguments of a core search that say how keys are drawn: uniformly without a proposal.

    Raises InputError when the proposal is for another number of keys.
    """
    if proposal is None:
        return {"tables": None, "row": None}
    num_keys = problem.core.num_keys_of(decoder)
    if len(proposal.row) != num_keys:
        raise InputError(f"the proposal is for {len(proposal.row)} keys, decoder '{decoder}' has {num_keys}")
    return {"tables": proposal.tables, "row": np.ascontiguousarray(proposal.row, np.uint16)}


def _next_batch(batch: int, seconds: float) -> int:
    """Evaluations to run before looking up again: about 20 ms of work."""
    return max(1, min(4 * batch, int(batch * 0.02 / max(seconds, 1e-6))))


def _record(
    trace: list[TracePoint], method: str, search: Pausable, spent: int, seconds: float, on_progress: OnProgress | None
) -> None:
    best, over, evaluations = search.best_objective, search.best_bytes_over_limit, spent + search.evaluations
    if not trace or (trace[-1].best, trace[-1].bytes_over_limit) != (best, over):
        trace.append(TracePoint(evaluations=evaluations, seconds=seconds, best=best, bytes_over_limit=over))
    if on_progress is not None:
        on_progress(Progress(method=method, evaluations=evaluations, seconds=seconds, best=best, bytes_over_limit=over))
