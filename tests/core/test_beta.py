"""The core's tables of Beta quantiles against scipy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import placewright._core as _core

SHAPES = [(1, 1), (2, 5), (5, 2), (0.5, 0.5), (0.2, 3), (30, 70), (100, 0.7), (800, 800)]


def keys_of(alpha: float, beta: float, uniforms: np.ndarray) -> np.ndarray:
    return _core.BetaTables(np.array([alpha], float), np.array([beta], float)).draw(0, uniforms)


def draws(alpha: float, beta: float, uniforms: np.ndarray) -> np.ndarray:
    """Keys in [0, 1) for uniform draws in [0, 1)."""
    return keys_of(alpha, beta, (uniforms * 2**32).astype(np.uint32)) / 2**32


@pytest.mark.parametrize(("alpha", "beta"), SHAPES)
def test_draws_are_the_quantiles_of_the_distribution(alpha: float, beta: float) -> None:
    uniforms = np.linspace(0, 1, 5000, endpoint=False)
    keys = draws(alpha, beta, uniforms)
    # A key represents all values up to the next one: 1.7% of Beta(0.2, 3) lies below 2**-32. Between 1,025 quantiles
    # it is linear, so off by less than one step of them.
    assert np.all(stats.beta.cdf(keys, alpha, beta) < uniforms + 1 / 1024)
    assert np.all(stats.beta.cdf(keys + 2**-32, alpha, beta) > uniforms - 1 / 1024)


@pytest.mark.parametrize(("alpha", "beta"), [shape for shape in SHAPES if min(shape) >= 0.5])
def test_random_draws_pass_for_the_distribution(alpha: float, beta: float) -> None:
    found = draws(alpha, beta, np.random.default_rng(3).random(20_000))
    # 20,000 true draws differ by more than 0.0138 once in a thousand times (1.95 / sqrt(20,000)).
    assert stats.kstest(found, stats.beta(alpha, beta).cdf).statistic < 0.0138


@pytest.mark.parametrize(("alpha", "beta"), SHAPES)
def test_a_greater_uniform_draw_never_gives_a_smaller_key(alpha: float, beta: float) -> None:
    keys = keys_of(alpha, beta, np.arange(0, 2**32, 65_537, dtype=np.uint64).astype(np.uint32))
    assert np.all(np.diff(keys.astype(np.int64)) >= 0)


def test_the_uniform_distribution_gives_the_draw_itself() -> None:
    uniforms = np.array([0, 1, 2**16, 2**31, 2**32 - 1], np.uint32)
    found = keys_of(1.0, 1.0, uniforms).astype(np.int64)
    # The distribution function is tabulated over 600 cells and inverted linearly: a thousandth of the range at most.
    assert np.abs(found - uniforms).max() < 2**32 / 1000


@pytest.mark.parametrize(("alpha", "beta"), [(0, 1), (1, 0), (-1, 1), (float("nan"), 1), (1, float("inf"))])
def test_parameters_that_are_not_positive_and_finite_are_refused(alpha: float, beta: float) -> None:
    with pytest.raises(ValueError, match="positive finite"):
        keys_of(alpha, beta, np.zeros(1, np.uint32))


def test_a_row_there_is_not_and_lengths_that_differ_are_refused() -> None:
    with pytest.raises(ValueError, match="no such row"):
        _core.BetaTables(np.ones(2), np.ones(2)).draw(2, np.zeros(1, np.uint32))
    with pytest.raises(ValueError, match="differ in length"):
        _core.BetaTables(np.ones(2), np.ones(1))
