"""Driver of the core's searches: advances a search by a few evaluations at a time, so that limits and Ctrl-C take
effect."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from placewright.decoder import DecoderName
from placewright.problem import Problem
from placewright.problem.objective import StopReason
from placewright.proposal import Proposal
from placewright.search.run.budget import UNLIMITED
from placewright.search.run.search_run import SearchRun
from placewright.support.errors import InputError

#: While more than this share of the time is left, the speed so far says little.
_TOO_EARLY_TO_TELL = 0.75


class Pausable(Protocol):
    """A search that can be continued; its pauses do not change its course."""

    @property
    def evaluations(self) -> int: ...

    @property
    def best_objective(self) -> int: ...

    @property
    def best_bytes_over_limit(self) -> int: ...

    def advance(self, evaluations: int, *, at_most: int) -> None:
        """Continue until `evaluations` in all are spent, but spend at most `at_most` now."""
        ...


def drive(
    run: SearchRun,
    search: Pausable,
    method: str,
    *,
    first_batch: int = 1,
    is_exhausted: Callable[[], bool] = lambda: False,
) -> StopReason:
    """Advance a search until the run's budget is spent or the run is interrupted; return why it ended.

    With a time limit the search gets as its total the evaluations that it will reach at its speed so far, and does no
    more than that at a time; if it may well reach the budget of evaluations, it gets that, as if there were no time
    limit. If the run has a bound, a solution that meets it ends the search soon: it is checked after numbers of
    evaluations that no clock decides, so the result stays reproducible.

    method: the name in progress reports. is_exhausted: True if the search has nothing left to do; then it is
    "complete".
    """
    enough, counted, batch = max(1, run.evaluations_left), 0, first_batch
    next_check = _next_check(run, search.evaluations)
    began = time.perf_counter()
    while True:
        batch_began = time.perf_counter()
        expected = _expected_evaluations(search.evaluations, batch_began - began, run.seconds_left)
        at_most = min(batch, next_check - search.evaluations, max(1, expected - search.evaluations))
        if run.evaluations < run.last_tenth:
            at_most = min(at_most, run.last_tenth - run.evaluations)
        told = max(expected, search.evaluations + at_most)
        if _may_reach(enough, expected, batch_began - began, run.seconds_left):
            told = enough
        search.advance(min(enough, told), at_most=at_most)
        batch = _next_batch(batch, (time.perf_counter() - batch_began) * batch / at_most)
        more, counted = search.evaluations - counted, search.evaluations
        run.report(method, search.best_objective, search.best_bytes_over_limit, evaluations=more)
        reason = run.reason_to_stop()
        if reason is not None or search.evaluations >= next_check:
            next_check = _next_check(run, search.evaluations)
            if run.is_optimal(search.best_objective, search.best_bytes_over_limit):
                return "optimal"
        if is_exhausted():
            return "complete"
        if reason is not None:
            return reason


def _next_check(run: SearchRun, evaluations: int) -> int:
    """Return the number of evaluations after which the best is compared with the bound again: at most an eighth is
    wasted."""
    return UNLIMITED if run.bound is None else evaluations + max(1, evaluations // 8)


def _expected_evaluations(evaluations: int, seconds: float, seconds_left: float | None) -> int:
    """Estimate the total number of evaluations at the end, after so many in so many seconds."""
    if seconds_left is None or evaluations == 0:
        return UNLIMITED
    return evaluations + int(evaluations / max(seconds, 1e-6) * max(0.0, seconds_left))


def _may_reach(enough: int, expected: int, seconds: float, seconds_left: float | None) -> bool:
    """True if `enough` is a real limit that can be hoped for: the beginning of a search takes longer than the rest."""
    if seconds_left is None or enough >= UNLIMITED // 100:
        return False
    share_left = max(0.0, seconds_left) / max(seconds + seconds_left, 1e-6)
    return share_left > _TOO_EARLY_TO_TELL or expected * (1 + share_left) >= enough


def key_distributions(problem: Problem, proposal: Proposal | None, decoder: DecoderName) -> dict[str, Any]:
    """Return the arguments of a core search that determine how keys are drawn: uniformly without a proposal.

    Raises InputError when the proposal is for another number of keys.
    """
    if proposal is None:
        return {"tables": None, "row": None}
    num_keys = problem.core.num_keys_of(decoder)
    if len(proposal.row) != num_keys:
        raise InputError(f"the proposal is for {len(proposal.row)} keys, decoder '{decoder}' has {num_keys}")
    return {"tables": proposal.tables, "row": np.ascontiguousarray(proposal.row, np.uint16)}


def _next_batch(batch: int, seconds: float) -> int:
    """Return the evaluations of the next batch: about 20 ms of work."""
    return max(1, min(4 * batch, int(batch * 0.02 / max(seconds, 1e-6))))
