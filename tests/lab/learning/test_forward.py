"""The network in numpy against the one in PyTorch, and against messages summed one by one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pytest
import torch
from lab.learning.networks import logits_given, random_actions, random_policy

from placewright.lab.learning.regal.configuration import CONFIGURATIONS, PolicyConfiguration
from placewright.lab.learning.regal.features import Features
from placewright.lab.learning.regal.forward import logits_of
from placewright.lab.learning.regal.network import Batch, PolicyNetwork
from placewright.lab.learning.regal.policy import weight_shapes


def random_graph(configuration: PolicyConfiguration, num_ops: int, num_edges: int, seed: int) -> Features:
    random = np.random.default_rng(seed)
    drawn = np.sort(random.integers(0, num_ops, (num_edges, 2)), axis=1)
    ends = drawn[np.argsort(drawn[:, 1], kind="stable")].astype(np.int32)
    return Features(
        op=random.random((num_ops, configuration.num_op_features), np.float32),
        edge=random.random((num_edges, 3), np.float32),
        source=ends[:, 0].copy(),
        target=ends[:, 1].copy(),
    )


SHAPES = [
    *CONFIGURATIONS.values(),
    replace(CONFIGURATIONS["runtime-zoo"], rounds=0),
    replace(CONFIGURATIONS["runtime-zoo"], placement_levels=0),
    replace(CONFIGURATIONS["peak-memory-zoo"], num_devices=3, update="gru"),
    replace(CONFIGURATIONS["peak-memory-zoo"], update="plain", normalisation="graph"),
    replace(CONFIGURATIONS["runtime-zoo-autoregressive"], normalisation="graph"),
    replace(CONFIGURATIONS["runtime-zoo-autoregressive"], num_devices=3, transfer_levels=4, elite_bias_levels=5),
]


@pytest.mark.parametrize("configuration", SHAPES, ids=str)
def test_numpy_computes_what_torch_computes(configuration: PolicyConfiguration) -> None:
    torch.manual_seed(0)
    network = PolicyNetwork(configuration)
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.07)
    weights = {name: tensor.numpy() for name, tensor in network.state_dict().items()}
    assert {name: array.shape for name, array in weights.items()} == weight_shapes(configuration)
    graphs = [random_graph(configuration, 60, 200, 1), random_graph(configuration, 5, 0, 2)]
    with torch.no_grad():
        together = network.states(Batch.of(graphs)).split([60, 5])
        for graph, states in zip(graphs, together, strict=True):
            actions = random_actions(configuration, len(graph.op))
            expected = network(states, torch.from_numpy(actions[None]))[0].numpy()
            found = logits_given(weights, configuration, graph, actions)
            np.testing.assert_allclose(found, expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("aggregation", ["sum", "mean"])
def test_messages_are_those_of_equation_1_edge_by_edge(aggregation: Literal["sum", "mean"]) -> None:
    configuration = replace(CONFIGURATIONS["runtime-zoo"], rounds=1, width=4, aggregation=aggregation)
    graph = random_graph(configuration, 12, 30, 3)
    weights = random_policy(configuration).weights

    def two_layers(name: str, x: np.ndarray) -> Any:
        hidden = np.maximum(weights[f"{name}.hidden.weight"] @ x + weights[f"{name}.hidden.bias"], 0)
        return weights[f"{name}.out.weight"] @ hidden + weights[f"{name}.out.bias"]

    state = [two_layers("states.encode_op", x) for x in graph.op]
    along: list[list[np.ndarray]] = [[] for _ in state]
    against: list[list[np.ndarray]] = [[] for _ in state]
    for source, target, x in zip(graph.source, graph.target, graph.edge, strict=True):
        ends = np.concatenate([state[source], state[target], two_layers("states.encode_edge", x)])
        along[target].append(two_layers("states.along", ends))
        against[source].append(two_layers("states.against", ends))
    found = logits_of(weights, configuration, graph)
    assert isinstance(found, np.ndarray)
    combine = np.sum if aggregation == "sum" else np.mean
    for op, own in enumerate(state):
        heard = sum((combine(side[op], axis=0) for side in (along, against) if side[op]), np.zeros(4))
        logits = two_layers("act", own + two_layers("states.update", np.concatenate([own, heard])))
        np.testing.assert_allclose(found[op], logits, atol=1e-4)
