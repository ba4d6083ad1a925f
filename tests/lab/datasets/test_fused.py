"""Fused networks have the ops, weights and products of the networks they represent."""

from collections import Counter

import pytest

from placewright.importers import load_graph
from placewright.lab.datasets.fused.networks import FUSED, fused_network
from placewright.lab.memory_levels.work import work_of
from placewright.support.errors import InputError


@pytest.mark.parametrize(
    ("depth", "convolutions", "gmacs"),
    # He et al., table 1, count 1.8, 3.6, 3.8, 7.6 and 11.3 billion. Strides on the 3x3 convolutions, as in today's
    # libraries, make bottlenecks cost 7% more (torchvision: 4.09, 7.80, 11.51).
    [(18, 20, 1.81), (34, 36, 3.66), (50, 53, 4.09), (101, 104, 7.80), (152, 155, 11.51)],
)
def test_residual_networks(depth: int, convolutions: int, gmacs: float) -> None:
    graph = fused_network(f"resnet{depth}-int8")
    kinds = Counter(op.kind for op in graph.ops)
    assert kinds == {"input": 1, "conv": convolutions, "pooling": 2, "matmul": 1, "softmax": 1}
    assert sum(work_of(op, graph).macs for op in graph.ops) / 1e9 == pytest.approx(gmacs, abs=0.011)


def test_resnet50_has_the_weights_of_the_network() -> None:
    graph = fused_network("resnet50-int8")
    size = sum(tensor.size_bytes for tensor in graph.tensors if tensor.role == "parameter")
    # 23,454,912 of convolutions and 2,048,000 of the last layer; a bias of 4 B for each of 26,560 + 1,000 channels.
    assert size == 23_454_912 + 2_048_000 + 4 * (26_560 + 1_000)


@pytest.mark.parametrize("tokens", [128, 384])
def test_bert_has_30_ops_per_layer_and_16_outside(tokens: int) -> None:
    graph = fused_network(f"bert-base-{tokens}-int8")
    ops = [op for op in graph.ops if op.kind != "input"]
    per_layer = Counter(op.name.split(".")[1] for op in ops if op.name.startswith("encoder."))
    assert set(per_layer.values()) == {30}
    assert len(ops) - 30 * len(per_layer) == 16
    # Per layer 4 projections, 2 products of attention and 2 of the inner layer; the pooler and the classifier.
    products = 12 * (4 * tokens * 768**2 + 2 * tokens**2 * 768 + 2 * tokens * 768 * 3072) + 768**2 + 2 * 768
    assert sum(work_of(op, graph).macs for op in graph.ops) == products


@pytest.mark.parametrize("name", ["resnet50-int8", "resnet101-int8", "bert-base-384-int8"])
def test_the_examples_are_what_the_code_makes(name: str) -> None:
    assert load_graph(f"example:{name}").fingerprint == fused_network(name).fingerprint


def test_names_are_checked() -> None:
    assert all(make().name == name for name, make in FUSED.items())
    with pytest.raises(InputError, match="did you mean resnet50-int8"):
        fused_network("resnet50_int8")
