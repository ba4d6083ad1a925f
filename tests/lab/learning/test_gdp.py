"""GDP: its network compared with slow references, what it sees, and what it learns about memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from instances import graph_of, machine_of, problem_of

from placewright.lab.learning.gdp.network import GdpNetwork, GraphEmbedding, PlacerLayer, Segments
from placewright.lab.learning.gdp.observation import NUM_FEATURES, Observation, observe
from placewright.lab.learning.gdp.settings import GdpConfiguration, NetworkSettings
from placewright.lab.learning.placers.colocation import units_of
from placewright.lab.learning.placers.gdp import GDP_PAPER, Gdp, check_memory, learning_bytes
from placewright.lab.learning.placers.placement_policy import seeded
from placewright.machine import Link
from placewright.problem import Problem
from placewright.support.errors import InputError

SMALL = NetworkSettings(width=8, rounds=2, layers=2, heads=2, segment=4, memory=3)


def chains(count: int = 6, latency_ns: int = 20, num_devices: int = 2, **rest: Any) -> Problem:
    """Return `count` chains of three ops of 10 ns."""
    ops: dict[str, tuple[str, int]] = {}
    for chain in range(count):
        ops |= {f"a{chain}": ("", 4), f"b{chain}": (f"a{chain}", 4), f"c{chain}": (f"b{chain}", 4)}
    return problem_of(graph_of(ops), machine_of(num_devices, Link(latency_ns=latency_ns)), 10, **rest)


def observed(problem: Problem) -> Observation:
    return observe(problem, units_of(problem, ()))


def network(settings: NetworkSettings = SMALL, num_devices: int = 2, seed: int = 3) -> Any:
    """Return a network with noise on its weights, so that it no longer treats all devices alike."""
    found, generator = seeded(lambda: GdpNetwork(GdpConfiguration(num_devices=num_devices, network=settings)), seed)
    with torch.no_grad():
        for weight in found.parameters():
            weight.add_(0.1 * torch.randn(weight.shape, generator=generator))
    return found


def random_rows(*shape: int, seed: int = 0) -> Any:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def test_an_embedding_is_the_papers_formula_edge_by_edge() -> None:
    # Op 3 has no neighbour: the maximum over none counts as 0.
    edges = torch.tensor([[0, 0, 1], [1, 2, 2]])
    embedding, features = GraphEmbedding(replace(SMALL, rounds=1)), random_rows(4, NUM_FEATURES)
    state = torch.relu(embedding.inputs(features))
    along, against = embedding.along[0], embedding.against[0]

    def most(layer: Any, nodes: list[int]) -> Any:
        each = [torch.relu(layer.lin(state[node])) for node in nodes]
        return torch.stack(each).max(0).values if each else torch.zeros(8)

    for node, read, readers in ((0, [], [1, 2]), (1, [0], [2]), (2, [0, 1], []), (3, [], [])):
        expected = along.lin_l(most(along, read)) + along.lin_r(state[node]) + against.lin_l(most(against, readers))
        assert torch.allclose(embedding(features, edges)[node], torch.relu(expected), atol=1e-6)


def recurrent(layer: Any, values: Any, conditions: Any, settings: NetworkSettings) -> Any:
    """Compute a layer as Transformer-XL describes it: segment by segment, no gradients through what is kept of the
    previous."""
    width, kept, found = settings.width, None, []
    for state, condition in zip(values.split(settings.segment), conditions.split(settings.segment), strict=True):
        own, wide = condition[:, :width], condition[:, width:]
        inputs = own * layer.before_attention(state)
        seen = inputs if kept is None else torch.cat([kept, inputs])
        kept = inputs.detach()[len(inputs) - settings.memory :]
        heads = []
        for begin in range(0, width, width // settings.heads):
            part = slice(begin, begin + width // settings.heads)
            query, key, value = (
                dense(rows)[:, part]
                for dense, rows in (
                    (layer.attends.query, inputs),
                    (layer.attends.key, seen),
                    (layer.attends.value, seen),
                )
            )
            heads.append(torch.softmax(query @ key.T / np.sqrt(width / settings.heads), 1) @ value)
        state = state + layer.attends.output(own * torch.cat(heads, 1))
        hidden = torch.relu(layer.widen(own * layer.before_dense(state)))
        found.append(state + layer.narrow(wide * hidden))
    return torch.cat(found)


@pytest.mark.parametrize(("count", "memory"), [(4, 3), (9, 3), (12, 4), (10, 1), (7, 0), (1, 3)])
def test_all_segments_at_once_are_what_recurrence_gives_with_gradients_cut_at_the_memory(
    count: int, memory: int
) -> None:
    settings = replace(SMALL, memory=memory)
    layer, segments = PlacerLayer(settings), Segments(count, settings)
    gradients = []
    for at_once in (True, False):
        values, conditions = random_rows(count, 8).requires_grad_(), random_rows(count, 24, seed=1).requires_grad_()
        if at_once:
            state = layer(segments.of(values), segments.of(conditions), segments, segments.visible())
            found = segments.back(state)
        else:
            found = recurrent(layer, values, conditions, settings)
        layer.zero_grad()
        (found * random_rows(count, 8, seed=2)).sum().backward()
        of_weights = torch.cat([weight.grad.reshape(-1) for weight in layer.parameters()])
        gradients.append((found, values.grad, conditions.grad, of_weights))
    for fast, slow in zip(*gradients, strict=True):
        assert torch.allclose(fast, slow, atol=1e-5)


def test_superposition_multiplies_what_every_dense_layer_reads() -> None:
    problem = chains(4)
    for kind in ("sigmoid", "linear"):
        learned, seen = network(replace(SMALL, superposition=kind)), observed(problem)
        with_factors = learned(seen)
        with torch.no_grad():  # every factor 1
            learned.condition.weight.zero_()
            learned.condition.bias.fill_(0.0 if kind == "sigmoid" else 1.0)
        plain = network(replace(SMALL, superposition="off"))
        plain.load_state_dict({k: v for k, v in learned.state_dict().items() if not k.startswith("condition")})
        assert torch.allclose(learned(seen), plain(seen), atol=1e-6)
        assert not torch.allclose(with_factors, plain(seen), atol=1e-3)


def test_without_attention_a_unit_is_placed_by_its_own_embedding() -> None:
    seen = observed(chains(4))
    apart = replace(seen, edges=np.zeros((2, 0), np.int64))
    moved = replace(apart, features=apart.features + (np.arange(12) == 0)[:, None].astype(np.float32))
    for attention in (True, False):
        learned = network(replace(SMALL, attention=attention))
        same = torch.isclose(learned(apart), learned(moved)).all(1)
        assert not same[0]
        assert bool(same[1:4].all()) != attention


def test_the_networks_gradient_is_that_of_finite_differences() -> None:
    learned, seen = network(replace(SMALL, memory=0)).double(), observed(chains(3))
    weights = dict(learned.named_parameters())
    weighing = random_rows(9, 2).double()

    def loss(*values: Any) -> Any:
        logits = torch.func.functional_call(learned, dict(zip(weights, values, strict=True)), (seen,))
        return (torch.log_softmax(logits[1:], 1) * weighing[1:]).sum()

    assert torch.autograd.gradcheck(loss, tuple(weights.values()), eps=1e-6, atol=1e-5, fast_mode=True)


def test_barred_devices_are_never_drawn_and_the_heaviest_op_stands_on_the_first_of_equal_devices() -> None:
    problem = chains(3, num_devices=3)
    seen = observed(problem)
    assert seen.allowed.sum() == 9 * 3 - 2
    allowed = seen.allowed.copy()
    allowed[4] = [False, True, False]
    logits = network(num_devices=3)(replace(seen, allowed=allowed))
    assert torch.softmax(logits, 1)[4].tolist() == [0.0, 1.0, 0.0]
    unequal = Problem(graph=problem.graph, machine=problem.machine, time_ns=np.tile([10, 20, 30], (9, 1)))
    assert observed(unequal).allowed.all()


def test_features_are_finite_and_an_unknown_kind_has_its_own() -> None:
    graph = graph_of({"a": ("", 0), "b": ("a", 2**40)})
    problem = Problem(graph=graph, machine=machine_of(2), time_ns=np.array([[0, 0], [2**40, 2**40]]))
    features = observed(problem).features
    assert features.shape == (2, NUM_FEATURES)
    assert np.isfinite(features).all()
    assert np.abs(features).max() < 4


def test_the_memory_that_learning_takes_is_told_before_it_begins() -> None:
    settings, seen = replace(SMALL, width=32, segment=16, memory=16), observed(chains(40))
    learned, kept = network(settings), dict[int, int]()

    def count(tensor: Any) -> Any:
        kept[tensor.data_ptr()] = tensor.numel() * tensor.element_size()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(count, lambda tensor: tensor):
        learned(seen)
    weights = sum(weight.numel() * 4 for weight in learned.parameters())
    expected = learning_bytes(settings, seen.units.count, seen.edges.shape[1])
    assert 0.5 * expected < sum(kept.values()) - weights < 2 * expected
    check_memory("gdp", settings, seen, expected)
    with pytest.raises(InputError, match=r"solver 'gdp' needs some .* to place 120 ops, and this host has 1.00 KiB"):
        check_memory("gdp", settings, seen, 1024)


def test_at_first_all_devices_are_alike() -> None:
    fresh, _ = seeded(lambda: GdpNetwork(GdpConfiguration(network=SMALL)), 0)
    assert not fresh(observed(chains(3)))[1:].any()


def test_the_papers_baseline_is_the_mean_of_all_placements_before() -> None:
    costs = [np.array([4.0, 2.0]), np.array([1.0, 5.0])]
    assert GDP_PAPER._advantage(costs[:1]).tolist() == [-1.0, 1.0]
    assert GDP_PAPER._advantage(costs).tolist() == [2.0, -2.0]
    # The step's own mean is 3 and its deviation 2.
    assert Gdp()._advantage(costs).tolist() == [1.0, -1.0]
