"""The zoo's own networks over sequences, tokens and tables have the parts that their papers name."""

from __future__ import annotations

from collections import Counter
from functools import cache

import pytest

torch = pytest.importorskip("torch", reason="the zoo is written in PyTorch")

from placewright.graph import Graph  # noqa: E402
from placewright.importers.torch.module import from_torch  # noqa: E402
from placewright.lab.datasets.zoo.capture import built  # noqa: E402
from placewright.lab.datasets.zoo.catalogue import all_networks  # noqa: E402
from placewright.lab.datasets.zoo.network import Mode  # noqa: E402


@cache
def graph_of(name: str, mode: Mode = "inference") -> Graph:
    network = next(network for network in all_networks() if network.name == name)
    model, arguments = built(network)
    return from_torch(model, arguments, training=mode == "training", name=name)


def products(graph: Graph) -> Counter[str]:
    """Count matrix products by layer, without the wrapper's name."""
    return Counter(op.module.removeprefix("model.") for op in graph.ops if op.kind == "matmul")


def test_a_recurrent_layer_has_ops_of_its_own_in_every_step() -> None:
    # the layer's cell once for each of 40 steps
    assert products(graph_of("lstm1"))["cells.0"] == 40


@pytest.mark.long  # Captures a larger network.
def test_the_backward_pass_of_an_unrolled_layer_has_two_products_per_step() -> None:
    counts = products(graph_of("lstm1", "training"))
    # forward 40; backward 40 for the weight and 40 for the step before
    assert counts["cells.0"] == 120


@pytest.mark.long  # Captures a larger network.
def test_experts_can_run_side_by_side() -> None:
    graph = graph_of("switch8")
    # no expert reads what another computes: both layers of each stand in modules of their own
    experts = {op.module for op in graph.ops if op.kind == "matmul" and ".experts." in op.module}
    # 3 of 6 blocks have 8 experts with 2 layers each
    assert len(experts) == 3 * 8 * 2


def test_every_field_of_a_recommender_has_a_table() -> None:
    assert Counter(op.kind for op in graph_of("dlrm").ops)["embedding"] == 26


@pytest.mark.parametrize("name", ["lstm1", "dlrm", pytest.param("switch8", marks=pytest.mark.long)])
def test_nothing_of_a_network_is_unknown_to_the_importer(name: str) -> None:
    assert "warnings" not in graph_of(name).metadata
