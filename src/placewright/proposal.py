"""The proposal: a Beta distribution per key of a chromosome, from which a search draws its mutants."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

import placewright._core as _core
from placewright.support.errors import InputError

#: What the core numbers a distribution with, uint16, tells that many apart.
MAX_DISTRIBUTIONS = 2**16
#: Between these the core's quantile tables are held to scipy (tests/test_proposal.py); far outside they lose accuracy:
#: an error of 1% in probability at alpha = 1e10, beta = 1e8.
SMALLEST_PARAMETER, LARGEST_PARAMETER = 1e-3, 1e6


@dataclass(frozen=True, kw_only=True, eq=False)
class Proposal:
    """row[key] names the distribution Beta(alpha[row], beta[row]) of each key; for the paper's decoder keys
    are laid out as in REGAL A.5: op x device affinities, op priorities, tensor x device transfer priorities
    (decoder.py has the others).

    alpha, beta: float64 [num distributions, at most 65,536], from 1e-3 to 1e6. row: integers [num keys], each
    in [0, num distributions). elite_bias: probability that a child takes a key from its elite parent, in [0.5, 1), in
    place of the search's own.

    Raises InputError when lengths disagree, a parameter lies outside that range (outside which the core's quantile
    tables lose accuracy), or a row is no number of a distribution.
    """

    alpha: NDArray[np.float64]
    beta: NDArray[np.float64]
    row: NDArray[np.integer[Any]]
    elite_bias: float | None = None

    def __post_init__(self) -> None:
        if self.alpha.shape != self.beta.shape or self.alpha.ndim != 1 or self.row.ndim != 1:
            raise InputError("a proposal needs alpha and beta of one length and one row number per key")
        if len(self.alpha) > MAX_DISTRIBUTIONS:
            raise InputError(f"a proposal has {len(self.alpha):,} distributions; {MAX_DISTRIBUTIONS:,} is the most")
        for name, values in (("alpha", self.alpha), ("beta", self.beta)):
            outside = values[~((values >= SMALLEST_PARAMETER) & (values <= LARGEST_PARAMETER))]
            if outside.size:
                limits = f"{SMALLEST_PARAMETER:g} to {LARGEST_PARAMETER:,.0f}"
                raise InputError(f"a proposal has {name} {outside[0]:g}, outside {limits}")
        if self.elite_bias is not None and not 0.5 <= self.elite_bias < 1:
            raise InputError(f"a proposal has an elite bias of {self.elite_bias}, outside [0.5, 1)")
        if not np.issubdtype(self.row.dtype, np.integer):
            raise InputError(f"a proposal has row numbers of type {self.row.dtype}, not integers")
        strays = self.row[(self.row < 0) | (self.row >= len(self.alpha))]
        if strays.size:
            raise InputError(f"a proposal names distribution {strays[0]}, but has {len(self.alpha):,}")

    @cached_property
    def tables(self) -> _core.BetaTables:
        """The distributions as the core draws from them. Proposals with the same distributions share them, since those
        of a policy's actions are always the same, and their quantiles take as long as many evaluations."""
        alpha, beta = (np.ascontiguousarray(values, np.float64).tobytes() for values in (self.alpha, self.beta))
        return _tables(alpha, beta)


@lru_cache(maxsize=16)
def _tables(alpha: bytes, beta: bytes) -> _core.BetaTables:
    return _core.BetaTables(np.frombuffer(alpha), np.frombuffer(beta))
