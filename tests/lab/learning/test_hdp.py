"""HDP: the inputs of its two networks, that their probabilities are those of whole decisions, and what is repaired."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
from instances import graph_of, machine_of, problem_of
from lab.learning.placer_cases import task_of

pytest.importorskip("torch", reason="HDP is two networks")

import torch

from placewright.lab.learning.placers.features import unit_features
from placewright.lab.learning.placers.hdp import HDP_GRAPPLER, HDP_PAPER, Hdp
from placewright.lab.learning.placers.hierarchical_network import NEIGHBOURS, GroupEmbedding, neighbours, with_noise
from placewright.lab.learning.placers.placement_policy import seeded
from placewright.problem import Problem


def chain(count: int, num_devices: int = 2) -> Problem:
    return problem_of(
        graph_of({f"op{i}": (f"op{i - 1}" if i else "", 4) for i in range(count)}), machine_of(num_devices)
    )


def placer(problem: Problem, **settings: Any) -> Any:
    method = Hdp(**{"hidden": 4, "grouper_hidden": 5, "kind_width": 3, "shared_noise": 0.0, **settings})
    return seeded(lambda: method.policy_of(task_of(problem)), 3)


def test_neighbours_are_places_in_the_graph_and_the_first_six_of_each_side() -> None:
    # 0 -> 1, 0 -> 2, 1 -> 3, and 4 alone.
    found = neighbours(np.array([[1, 0, 0], [3, 2, 1]]), 5)
    assert found.shape == (5, 1 + 2 * NEIGHBOURS)
    none = [-1.0] * NEIGHBOURS
    assert found[0].tolist() == [0, *none, 1 / 5, 2 / 5, *none[2:]]
    assert found[3].tolist() == [3 / 5, 1 / 5, *none[1:], *none]
    assert found[4].tolist() == [4 / 5, *none, *none]
    many = neighbours(np.array([range(8), [8] * 8]), 9)
    assert many[8, 1 : 1 + NEIGHBOURS].tolist() == [place / 9 for place in range(6)]


def test_the_placer_is_told_what_a_loop_over_ops_and_edges_counts() -> None:
    random = np.random.default_rng(4)
    names = [f"op{i}" for i in range(12)]
    reads = [" ".join({names[int(random.integers(i))] for _ in range(2)} if i else ()) for i in range(12)]
    problem = problem_of(graph_of({name: (read, 4) for name, read in zip(names, reads, strict=True)}), machine_of(2))
    features = unit_features(problem, task_of(problem).units)
    grouping = random.integers(0, 3, 12)
    rows = np.zeros((3, 6 + features.kinds.shape[1] + features.shapes.shape[1]))
    for source, target in features.edges.T:
        rows[grouping[source], grouping[target]] += 1
        rows[grouping[target], 3 + grouping[source]] += 1
    for op, group in enumerate(grouping):
        rows[group, 6 : 6 + features.kinds.shape[1]] += features.kinds[op]
        rows[group, 6 + features.kinds.shape[1] :] += features.shapes[op]
    for row in rows:
        row /= row.max() + 1
    found = GroupEmbedding(features, 3)(torch.from_numpy(grouping))
    assert np.allclose(found.numpy(), rows, atol=1e-6)


def test_the_probabilities_of_all_groupings_with_all_placements_add_up_to_one() -> None:
    policy, _ = placer(chain(3), num_groups=2, samples=4)
    # 2**3 groupings of three ops, of each the 2**2 placements of two groups.
    every = torch.tensor([[*g, *p] for g in product(range(2), repeat=3) for p in product(range(2), repeat=2)])
    log = policy.evaluate(every).log_probability
    assert log.shape == (32, 5)
    assert float(log.sum(1).exp().sum().detach()) == pytest.approx(1, abs=1e-5)
    # Whatever a group's device is, its ops are as likely to be in it.
    assert torch.allclose(log[0, :3], log[3, :3])


def test_what_is_drawn_is_as_likely_as_is_said_of_it() -> None:
    policy, generator = placer(chain(2), num_groups=2, samples=1)
    drawn = policy.sample(1000, generator)
    kinds, counts = torch.unique(drawn, dim=0, return_counts=True)
    expected = policy.evaluate(kinds).log_probability.sum(1).exp().detach()
    # A share of 1,000 draws scatters by at most 1.6%.
    assert torch.allclose(counts / 1000, expected, atol=0.06)


def test_the_likeliest_has_the_likeliest_group_of_each_op_and_is_likelier_than_what_is_drawn() -> None:
    policy, generator = placer(chain(5), num_groups=3, samples=1)
    best = policy.likeliest()
    assert best[0, :5].tolist() == policy.grouper().argmax(1).tolist()
    drawn = policy.evaluate(policy.sample(50, generator)).log_probability[:, :5].sum(1)
    assert bool((policy.evaluate(best).log_probability[0, :5].sum() >= drawn).all())


def test_the_gradient_of_both_networks_is_that_of_finite_differences() -> None:
    policy, generator = placer(chain(4), num_groups=2, samples=2, rectified=False)
    policy = policy.double()
    actions, worth = policy.sample(2, generator), torch.tensor([1.0, -2.0, 0.5, 3.0], dtype=torch.float64)

    def objective() -> Any:
        return (worth * policy.evaluate(actions).log_probability.sum(1)).sum()

    objective().backward()
    for name, weights in policy.named_parameters():
        place = int(weights.grad.abs().argmax())
        slope, step = float(weights.grad.flatten()[place]), 1e-6
        with torch.no_grad():
            weights.view(-1)[place] += step
            above = float(objective())
            weights.view(-1)[place] -= 2 * step
            below = float(objective())
            weights.view(-1)[place] += step
        assert slope == pytest.approx((above - below) / (2 * step), abs=1e-5), name


def test_device_logits_stay_within_their_bound() -> None:
    policy, generator = placer(chain(4), num_groups=4, bound=1.0, samples=1)
    with torch.no_grad():
        policy.placer.output.weight.mul_(1e4)
    actions = policy.sample(1, generator)
    # Two devices whose logits differ by at most 2: odds of at most e squared.
    least = policy.evaluate(actions).log_probability[:, 4:].detach().exp().min()
    assert float(least) >= 1 / (1 + math.exp(2)) - 1e-6


def test_ops_that_may_not_follow_their_group_stand_on_the_first_device_they_may_use() -> None:
    policy, _ = placer(chain(3, 3), num_groups=2, samples=1)
    policy.allowed = np.array([[True] * 3, [False, True, True], [True, False, False]])
    # All three in group 1, which is on device 2; op 2 may only use device 0.
    assert policy.devices(torch.tensor([[1, 1, 1, 0, 2]])).tolist() == [[2, 2, 0]]
    assert policy.devices(torch.tensor([[0, 0, 1, 0, 2]])).tolist() == [[0, 1, 0]]


def test_there_are_no_more_groups_than_ops_or_than_devices_ask_for() -> None:
    assert placer(chain(3))[0].groups.num_groups == 3
    assert placer(chain(50), groups_per_device=20)[0].groups.num_groups == 40
    assert placer(chain(50), groups_per_device=0)[0].groups.num_groups == 50


def test_noise_has_its_share_of_the_logits_and_none_changes_nothing() -> None:
    logits, generator = torch.full((100, 100), 2.0), torch.Generator().manual_seed(1)
    assert with_noise(logits, 0.0, generator) is logits
    assert float((with_noise(logits, 0.5, generator) - logits).std()) == pytest.approx(1.0, abs=0.02)


def test_the_presets_have_the_settings_of_the_paper_and_of_the_published_code() -> None:
    paper = (HDP_PAPER.temperature, HDP_PAPER.bound, HDP_PAPER.groupings, HDP_PAPER.samples, HDP_PAPER.learning_rate)
    assert paper == (10.0, 5.0, 1, 4, 0.1)
    code = (HDP_GRAPPLER.temperature, HDP_GRAPPLER.bound, HDP_GRAPPLER.samples, HDP_GRAPPLER.hidden)
    assert code == (1.0, 1.0, 1, 512)
