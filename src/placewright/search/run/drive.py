"""How a search of the core is driven, some evaluations at a time, so that limits and Ctrl-C are heeded."""

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

#: With more than such a share of the time left the speed so far says little.
_TOO_EARLY_TO_TELL = 0.75


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


def drive(
    run: SearchRun,
    search: Pausable,
    method: str,
    *,
    first_batch: int = 1,
    is_exhausted: Callable[[], bool] = lambda: False,
) -> StopReason:
    """Advance a search until the run's budget is spent or the run is interrupted; why it ended.

    With a time limit the search is told as many evaluations as it will reach at its speed so far, and does no more of
    them at a time; a number of evaluations that it may well reach is what it is told, as if there were no limit. Where
    the run has a bound, a best that meets it ends the search soon: it is looked for after numbers of evaluations that
    no clock decides, and the result stays reproducible.

    method: whose progress is reported. is_exhausted: whether the search has nothing left to do; then it is "complete".
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
    """After how many evaluations the best is compared with the bound again: at most an eighth is spent in vain."""
    return UNLIMITED if run.bound is None else evaluations + max(1, evaluations // 8)


def _expected_evaluations(evaluations: int, seconds: float, seconds_left: float | None) -> int:
    """How many there will be at the end, after so many in so many seconds."""
    if seconds_left is None or evaluations == 0:
        return UNLIMITED
    return evaluations + int(evaluations / max(seconds, 1e-6) * max(0.0, seconds_left))


def _may_reach(enough: int, expected: int, seconds: float, seconds_left: float | None) -> bool:
    """Whether so many evaluations are a number at all, and as many as can be hoped for: what a search begins with takes
    longer than what follows."""
    if seconds_left is None or enough >= UNLIMITED // 100:
        return False
    share_left = max(0.0, seconds_left) / max(seconds + seconds_left, 1e-6)
    return share_left > _TOO_EARLY_TO_TELL or expected * (1 + share_left) >= enough


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
