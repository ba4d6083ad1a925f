"""Noise that units share with those they exchange tensors with; learners that draw with it keep drawing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from lab.learning.placer_cases import columns, costs_of_proposals, task_of

pytest.importorskip("torch", reason="the noise is averaged by PyTorch")

import torch

from placewright.lab.learning.gdp.settings import NetworkSettings
from placewright.lab.learning.placers.colocrl import ColocRl
from placewright.lab.learning.placers.controls import SharedNoisePlacement
from placewright.lab.learning.placers.gdp import Gdp
from placewright.lab.learning.placers.hdp import Hdp
from placewright.lab.learning.placers.shared_noise import LEAST_BYTES, SharedNoise, choices
from placewright.lab.learning.placers.spotlight import Spotlight


def generator(seed: int = 0) -> Any:
    return torch.Generator().manual_seed(seed)


def three_chains() -> SharedNoise:
    """0 -> 1 -> ... -> 4, and two more."""
    first = np.array([unit for unit in range(15) if unit % 5 < 4])
    return SharedNoise(np.stack([first, first + 1]), np.full(len(first), 1e6), 15)


def test_each_row_has_mean_0_and_deviation_1() -> None:
    drawn = three_chains().draw(7, generator())
    assert drawn.shape == (7, 15)
    assert torch.allclose(drawn.mean(1), torch.zeros(7), atol=1e-5)
    assert torch.allclose(drawn.std(1, correction=0), torch.ones(7), atol=1e-5)


def test_an_average_is_half_the_units_own_and_half_its_neighbours_by_bytes() -> None:
    # 0 -> 1 with 0 bytes, 1 -> 2 with twice LEAST_BYTES more: 1 and 3 parts of four. Unit 3 has no neighbour.
    noise = SharedNoise(np.array([[0, 1], [1, 2]]), np.array([0.0, 2 * LEAST_BYTES]), 4)
    expected = np.array([[0.5, 0.5, 0, 0], [0.125, 0.5, 0.375, 0], [0, 0.5, 0.5, 0], [0, 0, 0, 1]])
    assert np.allclose(noise._mean.to_dense().numpy(), expected)


def test_those_that_exchange_tensors_mostly_choose_alike() -> None:
    chosen = choices(torch.zeros(15, 2), three_chains(), 1.0, 200, generator())
    neighbours = (chosen[:, 1] == chosen[:, 2]).float().mean()
    strangers = (chosen[:, 1] == chosen[:, 7]).float().mean()
    assert float(neighbours) > 0.9
    assert float(strangers) < 0.7


def test_no_edges_and_a_single_unit_have_noise_that_is_a_number() -> None:
    alone = SharedNoise(np.zeros((2, 0), np.int64), np.zeros(0), 1)
    assert bool(torch.isfinite(alone.draw(3, generator())).all())


def test_a_fixed_unit_takes_the_first_choice_and_the_others_stand_to_it_as_before() -> None:
    free = choices(torch.zeros(15, 3), three_chains(), 1.0, 50, generator())
    fixed = choices(torch.zeros(15, 3), three_chains(), 1.0, 50, generator(), fixed=4)
    assert bool((fixed[:, 4] == 0).all())
    # The same units are together.
    assert torch.equal(fixed == fixed[:, :1], free == free[:, :1])


def test_no_noise_against_logits_that_are_sure() -> None:
    logits = torch.tensor([[0.0, 1e3]] * 15)
    assert bool((choices(logits, three_chains(), 1.0, 20, generator()) == 1).all())


def test_barred_devices_are_not_drawn() -> None:
    problem = columns()
    task = task_of(problem)
    task.units.allowed[3] = [False, True]
    devices = next(SharedNoisePlacement().proposals(task))
    assert (devices[:, 3] == 1).all()
    assert {0, 1} == set(devices[:, 0].tolist())


@pytest.mark.parametrize(
    "method",
    [
        ColocRl(hidden=4, samples=20, colocation=()),
        Spotlight(hidden=4, samples=20, colocation=()),
        Hdp(hidden=4, grouper_hidden=4, kind_width=4),
        Gdp(network=NetworkSettings(width=8, rounds=1, layers=1, heads=2, segment=32, memory=32)),
    ],
    ids=lambda method: method.name,
)
def test_learners_do_not_end_on_one_device(method: ColocRl | Spotlight | Hdp | Gdp) -> None:
    """Six chains whose transfers cost twice an op: apart from all others, ops are worse than one device (1), and whole
    chains on two devices are better (the root of a half, 0.71)."""
    problem = columns(latency_ns=20)
    apart = costs_of_proposals(replace(method, shared_noise=0.0), problem, 2)
    together = costs_of_proposals(method, problem, 12)
    assert together[0] < apart[0]
    assert min(together[-3:]) < 1
