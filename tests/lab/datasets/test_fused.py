"""Fused networks have the ops, weights and products of the networks they stand for."""

import sys
from collections import Counter
from pathlib import Path

import pytest

from placewright.importers import load_graph
from placewright.lab.datasets.fused.networks import FUSED, fused_network
from placewright.lab.memory_levels.work import work_of
from placewright.support.errors import InputError

sys.path.append(str(Path(__file__).parents[3] / "benchmarks"))
from decoder_graphs import DECODERS, decoder_step


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


def test_a_decoder_reads_the_weights_of_its_model_and_its_cache() -> None:
    decoder = DECODERS["llama2-70b"]
    graph = decoder_step("step", decoder, batch=2, context=1000)
    held = {tensor.name: tensor.size_bytes for tensor in graph.tensors if tensor.role == "parameter"}
    # Llama 2 70B has 68,976,648,192 parameters of 2 B.
    assert sum(size for name, size in held.items() if not name.endswith("cache")) == 2 * 68_976_648_192
    # Keys and values of 8 heads of 128, for 2 x 1,000 tokens in 80 layers.
    assert sum(size for name, size in held.items() if name.endswith("cache")) == 2 * 8 * 128 * 2000 * 80 * 2
    # Every weight but the table of tokens and the normalisations once per sequence; scores and sums over the cache.
    products = 2 * (68_976_648_192 - 32_000 * 8192 - 161 * 8192) + 2 * 80 * 64 * 1000 * 2 * 128
    softmax = 2 * 80 * 64 * 1000 * 5 // 2
    assert sum(work_of(op, graph).macs for op in graph.ops) == products + softmax


def test_names_are_checked() -> None:
    assert all(make().name == name for name, make in FUSED.items())
    with pytest.raises(InputError, match="did you mean resnet50-int8"):
        fused_network("resnet50_int8")
