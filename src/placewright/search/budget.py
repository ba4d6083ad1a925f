"""When a method must stop: a stateless value asked with the progress so far."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from placewright.problem.objective import status_of
from placewright.support.errors import InputError

#: Evaluations of a budget that time alone ends.
UNLIMITED = 2**62 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """evaluations: at most this many, the reproducible limit. seconds: wall-clock limit, None for none. bound: a proven
    lower bound of the objective, in ns or bytes; a search that meets it may end, None where none is known."""

    evaluations: int = 5000
    seconds: float | None = None
    bound: int | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.evaluations <= UNLIMITED:
            raise InputError(f"a budget of {self.evaluations} evaluations is not a number from 1 to 2**62 - 1")
        if self.seconds is not None and not 0 < self.seconds < float("inf"):
            raise InputError(f"a time limit of {self.seconds} s is not a positive number of seconds")

    def reason_to_stop(self, evaluations: int, seconds: float) -> str | None:
        """ "evaluations" or "time" when that limit is reached, else None."""
        if evaluations >= self.evaluations:
            return "evaluations"
        if self.seconds is not None and seconds >= self.seconds:
            return "time"
        return None

    def part(self, share: float) -> Budget:
        """The budget until so much of it is spent."""
        return replace(
            self,
            evaluations=max(1, int(self.evaluations * share)),
            seconds=None if self.seconds is None else max(1e-3, self.seconds * share),
        )

    def is_optimal(self, best: int, bytes_over_limit: int) -> bool:
        """Whether a solution within limits meets the bound."""
        return status_of(best, bytes_over_limit, self.bound) == "optimal"


def key_search_evaluations(num_keys: int) -> int:
    """5,000 evaluations, fewer for chromosomes of more than 8,000 keys (1,500 ops on two devices), so that a search
    takes about a second and stays reproducible. The exponent is above 1 because large problems leave the caches."""
    return max(20, min(5000, int(5000 * (8000 / num_keys) ** 1.5)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """What a running method reports now and then. best: the objective of the best solution so far, in ns or bytes."""

    method: str
    evaluations: int
    seconds: float
    best: int
    bytes_over_limit: int


class OnProgress(Protocol):
    def __call__(self, progress: Progress) -> None: ...


#: Asked between batches; True ends the search early with what it has. The command line sets it on Ctrl-C.
Interrupted = Callable[[], bool]
