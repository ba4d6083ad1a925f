"""The control of policies: smooth random splits as the first individuals of a search."""

from __future__ import annotations

import numpy as np
import pytest
from instances import graph_of, machine_of, problem_of

from placewright.decoder import DecoderName
from placewright.lab.learning.random_splits import _OWN_SEED, RandomSplits, random_splits
from placewright.lab.peers.brkga import Brkga
from placewright.search.run.budget import Budget
from placewright.search.run.search_run import SearchRun
from placewright.support.errors import InputError

#: Two chains side by side; every sixth op of the one reads one of the other, too.
CHAINS = graph_of(
    {f"op{k}": (" ".join(f"op{at}" for at in {k - 2, k - 3 if k % 6 == 0 else k - 2} if at >= 0), 1) for k in range(80)}
)
PROBLEM = problem_of(CHAINS, machine_of(2))


def test_neighbours_stand_together_and_both_devices_have_work() -> None:
    reads = [(before, op) for op, each in enumerate(CHAINS.ops) for before in each.inputs]
    cut, shares = [], []
    for keys in random_splits(PROBLEM, 100, seed=3):
        device_of, _ = PROBLEM.core.decode(keys, "paper")
        cut.append(np.mean([device_of[before] != device_of[op] for before, op in reads]))
        shares.append(device_of.mean())
    assert np.mean(cut) < 0.25  # devices drawn op by op cut a half
    assert 0.2 < min(shares) <= max(shares) < 0.8


@pytest.mark.parametrize("decoder", ["paper", "lazy"])
def test_the_first_generation_is_the_splits(decoder: DecoderName) -> None:
    method = RandomSplits(search=Brkga(decoder=decoder))
    result = method.solve(PROBLEM, SearchRun(Budget(evaluations=100), seed=5))
    costs = [
        PROBLEM.core.simulate(*PROBLEM.core.decode(keys, decoder)).step_time_ns
        for keys in random_splits(PROBLEM, 100, seed=5 ^ _OWN_SEED)
    ]
    assert result.metrics.step_time_ns == min(costs) < max(costs)


def test_splits_depend_on_the_seed_alone() -> None:
    first, again, other = (random_splits(PROBLEM, 10, seed) for seed in (1, 1, 2))
    assert all((a == b).all() for a, b in zip(first, again, strict=True))
    assert not any((a == b).all() for a, b in zip(first, other, strict=True))


def test_a_decoder_without_devices_to_choose_is_refused() -> None:
    with pytest.raises(InputError, match="'segment-fill' chooses devices itself"):
        RandomSplits(search=Brkga(decoder="segment-fill"))
