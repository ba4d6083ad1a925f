"""Numbers from an independent simulator of the same model, written before this one: sizes, latencies of the compilers'
maps, optima. They hold to the digits written down."""

import numpy as np
import pytest

from placewright.lab.datasets.fused.networks import fused_network
from placewright.lab.memory_levels.chips import load_chip
from placewright.lab.memory_levels.compilers import COMPILERS
from placewright.lab.memory_levels.lowering import make_memory_problem
from placewright.lab.memory_levels.problem import MemoryProblem


def problem_of(network: str, chip: str = "nnpi") -> MemoryProblem:
    return make_memory_problem(fused_network(network), load_chip(chip))


@pytest.mark.parametrize(
    ("network", "ops", "weights_mb", "activations_mb"),
    [
        ("resnet50-int8", 57, 25.61, 11.3),
        ("resnet101-int8", 108, 44.66, 16.4),
        ("bert-base-384-int8", 376, 109.7, 210.6),
        ("bert-base-128-int8", 376, 109.7, 51.3),
    ],
)
def test_networks_have_the_papers_node_counts_and_the_known_sizes(
    network: str, ops: int, weights_mb: float, activations_mb: float
) -> None:
    problem = problem_of(network)
    assert problem.num_ops == ops
    weights = problem.size_bytes[problem.is_weight == 1].sum() / 1e6
    activations = problem.size_bytes[problem.is_weight == 0].sum() / 1e6
    assert round(float(weights), 2) == pytest.approx(weights_mb, abs=0.051)
    assert round(float(activations), 1) == activations_mb


@pytest.mark.parametrize(
    ("network", "compiler", "microseconds"),
    [
        ("resnet50-int8", "h6", 136.8),
        ("resnet101-int8", "h6", 450.5),
        ("bert-base-384-int8", "h6", 2562.2),
        ("bert-base-128-int8", "h6", 1111.0),
        ("resnet50-int8", "h1", 136.8),
        ("resnet101-int8", "h1", 450.5),
        ("bert-base-128-int8", "h1", 1395.8),
    ],
)
def test_compilers_maps_take_the_known_times(network: str, compiler: str, microseconds: float) -> None:
    problem = problem_of(network)
    latency_ps, moved, _ = problem.evaluate_one(COMPILERS[compiler](problem))
    assert moved == 0
    assert round(latency_ps / 1e6, 1) == microseconds


def test_of_4000_random_maps_as_many_fit_as_are_known() -> None:
    # Of ResNet-50 47 of 4,000 in one draw, 1.2%; of ResNet-101 and BERT none.
    generator = np.random.default_rng(0)
    valid = {}
    for network in ("resnet50-int8", "resnet101-int8"):
        problem = problem_of(network)
        maps = generator.integers(0, 3, (4000, problem.num_tensors), np.uint8)
        valid[network] = int((problem.evaluate(maps).moved_bytes == 0).sum())
    assert 25 <= valid["resnet50-int8"] <= 75
    assert valid["resnet101-int8"] == 0
