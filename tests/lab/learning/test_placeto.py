"""Placeto: messages against a loop over nodes, what the network sees, and what its decisions are worth."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from instances import graph_of, machine_of, problem_of
from lab.learning.placer_cases import columns, task_of

pytest.importorskip("torch", reason="Placeto is a network")

import torch

from placewright.lab.learning.algorithms.reinforce import StepBaseline
from placewright.lab.learning.environments.first_come import FirstComeEnvironment
from placewright.lab.learning.placers.placement_policy import Likelihood
from placewright.lab.learning.placers.placeto import Placeto, measured_after
from placewright.lab.learning.placers.placeto_network import (
    Episodes,
    Messages,
    NodePlacer,
    Observer,
    Relations,
    unit_starts,
)
from placewright.support.errors import InputError


def random_edges(count: int, seed: int = 0) -> Any:
    random = np.random.default_rng(seed)
    pairs = {(int(random.integers(target)), target) for target in range(1, count) for _ in range(2)}
    return np.array(sorted(pairs)).T


def test_rounds_of_messages_are_what_a_loop_over_nodes_sums_up() -> None:
    torch.manual_seed(0)
    edges, nodes = random_edges(7), torch.randn(7, 2, 3)
    messages = Messages(edges[0], edges[1], 7, 3, rounds=3)
    expected = [nodes[node].clone() for node in range(7)]
    for _ in range(3):
        told = [messages.told(each) for each in expected]
        for node in range(7):
            senders = [int(source) for source, target in edges.T if target == node]
            if senders:
                summed = sum((told[sender] for sender in senders), torch.zeros(2, 3))
                expected[node] = expected[node] + messages.heard(summed)
    assert torch.allclose(messages(nodes), torch.stack(expected), atol=1e-5)
    # A node without messages stays as it was.
    assert torch.equal(messages(nodes)[0], nodes[0])


def test_ancestors_descendants_and_others_are_what_walks_find_and_cycles_are_both() -> None:
    # 0 -> 1 -> 2, 3 -> 2, and 4 and 5 read each other.
    before, after, beside = Relations(np.array([[0, 1, 3, 4, 5], [1, 2, 2, 5, 4]]), 6).of(np.arange(6))
    assert np.flatnonzero(before[2]).tolist() == [0, 1, 3]
    assert np.flatnonzero(after[0]).tolist() == [1, 2]
    assert np.flatnonzero(beside[1]).tolist() == [3, 4, 5]
    assert before[4].tolist() == after[4].tolist() == [False] * 5 + [True]
    edges = random_edges(20, 3)
    reach = np.zeros((20, 20), bool)
    reach[edges[0], edges[1]] = True
    for middle in range(20):
        reach |= reach[:, [middle]] & reach[[middle]]
    before, after, beside = Relations(edges, 20).of(np.arange(20))
    assert np.array_equal(after, reach)
    assert np.array_equal(before, reach.T)
    assert np.array_equal(beside, ~(reach | reach.T | np.eye(20, dtype=bool)))


def network(count: int = 6, num_devices: int = 3) -> Any:
    torch.manual_seed(1)
    allowed = np.ones((count, num_devices), bool)
    allowed[2] = [False, True, False][:num_devices]
    return NodePlacer(random_edges(count), allowed, 5, 4, rounds=2)


def test_a_node_asks_itself_and_sums_over_its_ancestors_descendants_and_others() -> None:
    placer = network()
    features, nodes = torch.randn(6, 2, 5), torch.tensor([3, 1])
    found = placer(features, nodes)
    for episode, node in enumerate(nodes.tolist()):
        own = placer.own(features[:, [episode]])
        seen = torch.cat([placer.along(own), placer.against(own)], 2)[:, 0]
        asked = [seen[node]]
        for which, relation in enumerate(placer.relations.of(np.array([node]))):
            total = torch.zeros(8)
            for other in range(6):
                if relation[0, other]:
                    total = total + placer.told[which](seen[other])
            asked.append(placer.heard[which](total))
        expected = placer.output(torch.cat(asked))
        assert torch.allclose(found[episode], expected, atol=1e-5)


def test_names_of_nodes_do_not_matter() -> None:
    """A policy may serve another graph because its output does not depend on the order of the nodes."""
    one, features = network(), torch.randn(6, 1, 5)
    shuffled = np.random.default_rng(0).permutation(6)
    edges = shuffled[random_edges(6)]
    other = NodePlacer(edges, np.ones((6, 3), bool), 5, 4, rounds=2)
    weights = {name: value for name, value in one.state_dict().items() if "told" in name or "heard" in name}
    weights |= {name: value for name, value in one.state_dict().items() if name.split(".")[0] in ("own", "output")}
    other.load_state_dict(weights, strict=False)
    moved = torch.empty_like(features)
    moved[torch.from_numpy(shuffled)] = features
    node = torch.tensor([4])
    assert torch.allclose(one(features, node), other(moved, torch.from_numpy(shuffled)[node]), atol=1e-5)


def test_barred_devices_have_no_probability() -> None:
    logits = network()(torch.randn(6, 3, 5), torch.tensor([2, 2, 0]))
    assert logits[:2].isinf().tolist() == [[True, False, True]] * 2
    assert not bool(logits[2].isinf().any())


def test_features_are_scaled_columns_and_say_who_was_visited_where_it_stands_and_when_it_starts() -> None:
    # a (10 ns) feeds b (20) and c (40) of 4, 8 and 2 bytes.
    graph = graph_of({"a": ("", 4), "b": ("a", 8), "c": ("a", 2)})
    observer = Observer(task_of(problem_of(graph, machine_of(2), [10, 20, 40])))
    seen = observer.features(1, np.array([[0, 1, 0]]), np.array([[0, 10, 30]]))[:, 0]
    #  time, output, parameters; visited, being visited; start - b's, over 20; one-hot device
    expected = [[0.25, 0.5, 0, 1, 0, -0.5, 1, 0], [0.5, 1, 0, 0, 1, 0, 0, 1], [1, 0.25, 0, 0, 0, 1, 1, 0]]
    assert torch.allclose(seen, torch.tensor(expected))


def test_a_group_starts_when_the_first_of_its_ops_does() -> None:
    problem = columns(2, 100)
    task = task_of(problem, ("only-consumer",))
    assert task.units.count == 2
    # One chain after the other in first come, first served: a0 at 0, a1 at 10; on two devices both at 0.
    starts = unit_starts(problem, task.units, np.array([[0, 0], [0, 1]]))
    assert starts.tolist() == [[0, 10], [0, 0]]


def test_the_likelihood_of_an_episode_is_that_of_each_of_its_decisions_as_they_were_made() -> None:
    problem = columns(2, 100)
    observer = Observer(task_of(problem))
    torch.manual_seed(2)
    policy = NodePlacer(observer.edges, observer.allowed, observer.width, 4, rounds=2)
    devices, starts, learned = np.zeros((3, 6), np.int64), np.zeros((3, 6), np.int64), np.array([1, 4])
    episodes, generator = Episodes(observer, policy, devices, starts, learned), torch.Generator().manual_seed(5)
    expected = []
    for node in range(6):
        logits = policy(observer.features(node, episodes.devices, starts), torch.full((3,), node))
        episodes.visit(node, generator)
        if node in learned:
            log = torch.log_softmax(logits, 1)
            expected.append(log[torch.arange(3), torch.from_numpy(episodes.devices[:, node])])
    assert torch.allclose(episodes.likelihood().log_probability, torch.stack(expected, 1), atol=1e-5)


@pytest.mark.parametrize(
    ("measurements", "expected"),
    [(0, [0, 1, 2, 3, 4]), (1, [4]), (2, [1, 4]), (5, [0, 1, 2, 3, 4]), (99, [0, 1, 2, 3, 4])],
)
def test_measurements_are_spread_over_an_episode_and_the_last_is_at_its_end(
    measurements: int, expected: list[int]
) -> None:
    assert np.flatnonzero(measured_after(5, measurements)).tolist() == expected


def test_the_baseline_of_a_step_is_the_mean_of_the_last_episodes_and_rates_fall() -> None:
    layer = torch.nn.Linear(1, 1)
    learner = StepBaseline(layer, learning_rates=(1.0, 0.0), steps=2, entropy=0.5, episodes=3)

    def decided() -> Likelihood:
        log = layer(torch.ones(2, 2, 1))[..., 0]
        return Likelihood(log_probability=log, entropy=torch.ones(2, 2))

    learned = np.array([0, 2])
    learner.step(decided(), np.array([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]]), learned)
    assert learner.baseline.tolist() == [2, 2, 2]
    learner.step(decided(), np.array([[6.0, 0.0, 0.0], [9.0, 1.0, 1.0]]), learned)
    # Of the last three episodes: (3, 2, 1), (6, 0, 0), (9, 1, 1).
    assert learner.baseline == pytest.approx(np.array([6, 1, 2 / 3]))
    before = layer.weight.detach().clone()
    learner.step(decided(), np.array([[1.0, 1.0, 1.0], [2.0, 2.0, 2.0]]), learned)
    # After two steps the learning rate is 0, and so is what entropy is worth.
    assert torch.equal(layer.weight, before)
    log = decided()
    loss = learner.loss(log, np.array([[1.0, 0.0], [0.0, -1.0]]))
    assert float(loss.detach()) == pytest.approx(
        float((log.log_probability[1, 1] - log.log_probability[0, 0]).detach()) / 4
    )
    with pytest.raises(InputError, match="a return is not a finite number"):
        learner.step(decided(), np.full((2, 3), np.nan), learned)


def test_every_measurement_counts_and_an_episode_has_as_many_as_were_asked_for() -> None:
    problem = columns(4, 100)
    environment, task = FirstComeEnvironment(problem), task_of(problem)
    learner = Placeto(hidden=4, rounds=1, measurements=3, samples=2).proposals(task)
    sizes, devices = [], next(learner)
    assert devices.tolist() == [[0] * 12]
    for _ in range(7):
        devices = learner.send(environment.measure(task.units.placements(devices)))
        sizes.append(devices.copy())
    learner.close()
    assert [len(each) for each in sizes] == [2] * 7
    # After the first third of an episode the other two thirds are still where everything began.
    assert not sizes[0][:, 4:].any()
    assert not sizes[3][:, 4:].any()
    assert sizes[2].any()
