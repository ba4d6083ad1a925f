"""Means over graphs with 95% confidence intervals, where noisy copies of one topology do not count as independent."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import NormalDist, fmean

_CONFIDENCE = 0.975  # Two-sided 95%.
#: Quantiles of Student's t for 1 to 10 degrees of freedom; beyond, the expansion of `t_quantile` is exact to 2e-4.
_T_QUANTILES = (12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281)


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean over graphs.

    Attributes
    ----------
    value
        The mean.
    half_width
        Half-width of its 95% confidence interval; None from fewer than two topologies.
    num_graphs
        Number of graphs.
    """

    value: float
    half_width: float | None
    num_graphs: int


def t_quantile(degrees: int) -> float:
    """Return the 97.5% quantile of Student's t distribution (Abramowitz & Stegun 26.7.5 beyond 10 degrees of
    freedom)."""
    if degrees <= len(_T_QUANTILES):
        return _T_QUANTILES[degrees - 1]
    z = NormalDist().inv_cdf(_CONFIDENCE)
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / degrees + second / degrees**2 + third / degrees**3


def clustered_mean(values: Mapping[str, float], topology_of: Callable[[str], str]) -> Mean | None:
    """Return the mean of values by graph, each graph with the same weight; None without values.

    The standard error is that of topologies: deviations from the mean are summed within a topology before they are
    squared. With as many graphs of each topology that is s / sqrt(n) of the n topologies' means.
    """
    if not values:
        return None
    mean = fmean(values.values())
    deviations: dict[str, float] = defaultdict(float)
    for graph, value in values.items():
        deviations[topology_of(graph)] += value - mean
    return Mean(mean, _half_width(list(deviations.values()), len(values)), len(values))


def _half_width(deviations: list[float], num_graphs: int) -> float | None:
    """Return the half-width of the interval. deviations: their sum in each topology."""
    n = len(deviations)
    if n < 2:
        return None
    variance = n / (n - 1) * math.fsum(deviation**2 for deviation in deviations)
    return t_quantile(n - 1) * math.sqrt(variance) / num_graphs
