"""How a search of the core is driven: some evaluations at a time, so that limits and Ctrl-C are heeded."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Protocol

from placewright.search.budget import Budget, Interrupted, OnProgress, Progress
from placewright.search.result import TracePoint


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
) -> Run:
    """Advance `search` until the budget is spent or it is interrupted. began: time.perf_counter() at the start."""
    trace: list[TracePoint] = []
    batch, reason = first_batch, None
    while reason is None:
        batch_began = time.perf_counter()
        search.advance(budget.evaluations, at_most=batch)
        now = time.perf_counter()
        batch = _next_batch(batch, now - batch_began)
        _record(trace, method, search, now - began, on_progress)
        reason = budget.reason_to_stop(search.evaluations, now - began)
        if reason is None and interrupted is not None and interrupted():
            reason = "interrupted"
    return Run(stopped_because=reason, trace=tuple(trace))


def _next_batch(batch: int, seconds: float) -> int:
    """Evaluations to run before looking up again: about 20 ms of work."""
    return max(1, min(4 * batch, int(batch * 0.02 / max(seconds, 1e-6))))


def _record(
    trace: list[TracePoint], method: str, search: Pausable, seconds: float, on_progress: OnProgress | None
) -> None:
    best, over = search.best_objective, search.best_bytes_over_limit
    if not trace or (trace[-1].best, trace[-1].bytes_over_limit) != (best, over):
        trace.append(TracePoint(evaluations=search.evaluations, seconds=seconds, best=best, bytes_over_limit=over))
    if on_progress is not None:
        on_progress(
            Progress(method=method, evaluations=search.evaluations, seconds=seconds, best=best, bytes_over_limit=over)
        )
