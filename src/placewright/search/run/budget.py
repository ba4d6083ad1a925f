"""The budget of a search, and its progress reports."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from placewright.support.errors import InputError
from placewright.support.quantities import QUANTITY_LIMIT

#: The evaluations of a budget that only time limits.
UNLIMITED = QUANTITY_LIMIT - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The budget of a run of a search.

    Parameters
    ----------
    evaluations
        The most evaluations, the reproducible limit.
    seconds
        Limit of wall-clock time; None for none.

    Raises
    ------
    InputError
        Where a limit is not positive.
    """

    evaluations: int = 5000
    seconds: float | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.evaluations <= UNLIMITED:
            raise InputError(f"a budget of {self.evaluations} evaluations is not a number from 1 to 2**62 - 1")
        if self.seconds is not None and not 0 < self.seconds < float("inf"):
            raise InputError(f"a time limit of {self.seconds} s is not a positive number of seconds")


def key_search_evaluations(num_keys: int) -> int:
    """Return 5,000 evaluations, fewer for chromosomes of more than 8,000 keys (1,500 ops on two devices), so that a
    search takes about a second and stays reproducible. The exponent is above 1 because large problems exceed the
    caches."""
    return max(20, min(5000, int(5000 * (8000 / num_keys) ** 1.5)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """A progress report of a running method. best: the objective of the best solution so far, in ns or bytes."""

    method: str
    evaluations: int
    seconds: float
    best: int
    bytes_over_limit: int


class OnProgress(Protocol):
    def __call__(self, progress: Progress, /) -> None: ...


#: Called between batches; True ends the search early with its best so far. The command line sets it on Ctrl-C.
Interrupted = Callable[[], bool]
