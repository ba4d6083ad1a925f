"""The zoo's networks: where each comes from, sizes as published, graphs of both kinds captured from them."""

from __future__ import annotations

import csv
import importlib.util
from collections import Counter
from pathlib import Path

import pytest

from placewright.support.errors import InputError, MissingExtraError

pytest.importorskip("torch", reason="the zoo is written in PyTorch")

from placewright.costs import estimate_costs
from placewright.graph import Graph
from placewright.importers.torch.module import from_torch
from placewright.lab.datasets.zoo import libraries, random_wiring
from placewright.lab.datasets.zoo.capture import built, capture_network
from placewright.lab.datasets.zoo.catalogue import all_networks
from placewright.lab.datasets.zoo.libraries import LIBRARIES, OWN, built_module
from placewright.lab.datasets.zoo.network import Mode, Network
from placewright.lab.datasets.zoo.objectives import Supervised, squared_error
from placewright.machines import load_machine

if missing := [library for library in LIBRARIES if importlib.util.find_spec(library) is None]:
    pytest.skip(f"networks of the zoo come from {missing[0]}", allow_module_level=True)

NETWORKS: dict[str, Network] = {network.name: network for network in all_networks()}

#: Trainable numbers as the papers' authors or their reference implementations count them; one small network of each
#: library here, all others in test-long.
PUBLISHED = {
    "resnet18": 11_689_512,
    "mobilenet_v3_small": 2_542_856,
    "bert_base": 109_514_298,
    "lenet5": 61_706,
    "mixer_s16": 18_528_264,
}
PUBLISHED_LONG = {
    "resnet50": 25_557_032,
    "densenet121": 7_978_856,
    "inception_v3": 27_161_264,
    "squeezenet_1_1": 1_235_496,
    "shufflenet_v2": 2_278_604,
    "mobilenet_v1": 4_231_976,
    "mobilenet_v2": 3_504_872,
    "mobilenet_v3_large": 5_483_032,
    "efficientnet_b0": 5_288_548,
    "regnet_x_400mf": 5_495_976,
    "regnet_y_400mf": 4_344_144,
    "nasnet_a_mobile": 5_289_978,
    "nasnet_a_large": 88_753_150,
    "convnext_tiny": 28_589_128,
    "vgg16": 138_357_544,
    "r3d18": 33_371_472,
    "vit_small12": 22_050_664,
    "swin_tiny": 28_288_354,
    "gpt2_small": 124_439_808,
    "t5_small": 60_506_624,
}

#: A small network of each library.
SMALL = ("squeezenet_1_1", "mixer_s16", "network_in_network", "graph_attention2", "bert_tiny", "lenet5")


def ops_of(mode: Mode) -> dict[str, int]:
    """Return the number of ops of each network's graph, counted with the pinned versions."""
    with (Path(__file__).parent / "zoo_ops.csv").open() as lines:
        return {row["network"]: int(row[mode]) for row in csv.DictReader(lines) if row[mode]}


def check_graph(graph: Graph) -> None:
    """Check that every op is known and reads only what comes before it."""
    assert not {"other", "control_flow"} & {op.kind for op in graph.ops}
    made = {index for index, tensor in enumerate(graph.tensors) if tensor.role != "activation"}
    for op in graph.ops:
        assert set(op.inputs) <= made
        made |= set(op.outputs)


def weights(name: str) -> int:
    return sum(parameter.numel() for parameter in built(NETWORKS[name])[0].parameters())


def test_every_network_says_where_it_comes_from() -> None:
    assert {network.library for network in NETWORKS.values()} == {*LIBRARIES, OWN} - {"torch"}


def test_every_network_has_a_recorded_number_of_ops() -> None:
    assert set(ops_of("inference")) == set(NETWORKS)


@pytest.mark.parametrize(
    ("name", "count"),
    # The others take a second or two each.
    [*PUBLISHED.items(), *(pytest.param(*each, marks=pytest.mark.long) for each in PUBLISHED_LONG.items())],
)
def test_a_network_has_the_published_number_of_weights(name: str, count: int) -> None:
    assert weights(name) == count


@pytest.mark.parametrize("name", SMALL)
def test_both_graphs_of_a_network_know_every_op_and_the_step_has_all_phases(name: str) -> None:
    inference, step = capture_network(NETWORKS[name], "inference"), capture_network(NETWORKS[name], "training")
    check_graph(inference)
    check_graph(step)
    assert len(inference.ops) == ops_of("inference")[name]
    phases = Counter(op.phase for op in step.ops)
    assert set(phases) >= {"forward", "backward", "optimizer"}
    # without the backward pass a step is about as long as the inference, with it at least half as long again
    assert len(step.ops) - phases["optimizer"] > 1.5 * len(inference.ops)


@pytest.mark.long  # Some seconds each.
@pytest.mark.parametrize("name", NETWORKS)
def test_every_network_is_captured_for_inference_with_the_recorded_number_of_ops(name: str) -> None:
    graph = capture_network(NETWORKS[name], "inference")
    check_graph(graph)
    assert len(graph.ops) == ops_of("inference")[name]
    assert graph.metadata["library"] == NETWORKS[name].library


@pytest.mark.long  # Some seconds each.
@pytest.mark.parametrize("name", NETWORKS)
def test_every_network_is_captured_for_training(name: str) -> None:
    graph = capture_network(NETWORKS[name], "training")
    check_graph(graph)
    assert {op.phase for op in graph.ops} >= {"forward", "backward", "optimizer"}
    assert len(graph.ops) == ops_of("training").get(name, len(graph.ops))


def test_a_missing_library_is_one_sentence_that_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "timm" else object())
    with pytest.raises(MissingExtraError) as caught:
        NETWORKS["mixer_s16"].build()
    assert str(caught.value) == "capturing the zoo needs timm: pip install 'path/to/placewright[zoo]'"


@pytest.mark.parametrize(("library", "builder"), [("pytorchcv", "resnet.resnet19"), ("timm", "no.such")])
def test_a_builder_that_a_library_lacks_is_named(library: str, builder: str) -> None:
    with pytest.raises(InputError, match=f"^{library} has no network builder '{builder}'$"):
        built_module(library, builder, {})


def test_transformers_can_be_imported_beside_a_torchvision_built_for_another_pytorch() -> None:
    libraries.import_torchvision()
    import torchvision
    import transformers

    assert torchvision.models.resnet18
    assert transformers.BertForMaskedLM


@pytest.mark.parametrize(
    "wire", [random_wiring.erdos_renyi, random_wiring.barabasi_albert, random_wiring.watts_strogatz]
)
def test_a_random_wiring_is_the_same_for_a_seed_and_reads_only_earlier_nodes(wire: object) -> None:
    first, again, other = wire(1), wire(1), wire(2)  # type: ignore[operator]
    assert first == again != other
    assert all(read < node for node, reads in enumerate(first) for read in reads)


def test_a_watts_strogatz_wiring_keeps_its_number_of_edges() -> None:
    # every one of 32 nodes starts with two edges to the nodes after it, and moving an edge keeps it
    assert sum(map(len, random_wiring.watts_strogatz(3))) == 64


def test_a_supervised_module_returns_its_output_or_in_training_its_loss() -> None:
    import torch

    model = Supervised(torch.nn.Identity(), squared_error)
    image = torch.full((2, 3), 2.0)
    assert model.train()(image) == 4.0
    assert model.eval()(image).shape == (2, 3)


def test_a_captured_network_keeps_what_scheduling_needs_and_nothing_else() -> None:
    network = NETWORKS["lenet5"]
    graph = capture_network(network, "training")
    model, arguments = network.build()
    whole = from_torch(model, arguments, training=True, optimizer="adam")
    times = estimate_costs(whole, load_machine("1xp100")).time_ns[:, 0].tolist()
    # The papers' machine launches nothing: an op's time holds its launch of 5 us in place of the gap of 1.5 us.
    assert [op.time_ns for op in graph.ops] == [time and time + 5_000 - 1_500 for time in times]
    alone = capture_network(network, "training", launches=False)
    assert [op.time_ns for op in alone.ops] == times
    for new, old in zip(graph.ops, whole.ops, strict=True):
        kept = (new.kind, new.inputs, new.outputs, new.controls, new.phase, new.workspace_bytes)
        assert kept == (old.kind, old.inputs, old.outputs, old.controls, old.phase, old.workspace_bytes)
        assert (new.target, new.module, new.source, dict(new.attributes)) == ("", "", "", {})
    for tensor, before in zip(graph.tensors, whole.tensors, strict=True):
        held = (tensor.size_bytes, tensor.role, tensor.alias_of, tensor.is_output)
        assert held == (before.size_bytes, before.role, before.alias_of, before.is_output)
        assert (tensor.shape, tensor.dtype) == (None, None)
    names = (graph.name, graph.ops[1].name, graph.tensors[1].name)
    assert names == ("lenet5-training", f"{graph.ops[1].kind}1", "t1")
    assert graph.metadata == {
        "network": "lenet5",
        "family": network.family,
        "library": "placewright",
        "mode": "training",
        "device": "p100",
    }
