"""The core's random numbers, as they show in the chromosomes it draws."""

from __future__ import annotations

import numpy as np
from scipy import stats
from searches import random_problem, search

PROBLEM = random_problem(4000, 1)


def first_keys(seed: int) -> np.ndarray:
    """The first chromosome of a search, in [0, 1): one evaluation, so it is the best."""
    evolving = search(PROBLEM, seed=seed)
    evolving.advance(1)
    return evolving.best_keys() / 2**32


def test_keys_are_uniform() -> None:
    keys = first_keys(5)
    # 20,000 true uniform draws differ by more than 0.0138 once in a thousand times (1.95 / sqrt(20,000)).
    assert len(keys) == 20_000
    assert stats.kstest(keys, "uniform").statistic < 0.0138


def test_the_low_bits_are_as_random_as_the_high_ones() -> None:
    low = (first_keys(6) * 2**32).astype(np.uint64) % 256
    counts = np.bincount(low.astype(np.int64), minlength=256)
    # Chi-squared with 255 degrees of freedom exceeds 330.5 once in a thousand times.
    assert stats.chisquare(counts).statistic < 330.5


def test_neighbouring_keys_and_neighbouring_seeds_do_not_go_together() -> None:
    keys, others = first_keys(7), first_keys(8)
    # The correlation of 20,000 independent pairs exceeds 3.3 / sqrt(20,000) = 0.0233 once in a thousand times.
    assert abs(np.corrcoef(keys[:-1], keys[1:])[0, 1]) < 0.0233
    assert abs(np.corrcoef(keys, others)[0, 1]) < 0.0233


def test_the_same_seed_draws_the_same_keys_and_another_seed_others() -> None:
    assert np.array_equal(first_keys(9), first_keys(9))
    assert np.mean(first_keys(9) == first_keys(10)) < 0.001


def test_every_64_bit_seed_is_taken() -> None:
    seen = {first_keys(seed)[0] for seed in (0, 1, 2**32, 2**63, 2**64 - 1)}
    assert len(seen) == 5
