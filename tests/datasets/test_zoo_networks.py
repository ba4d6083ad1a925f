"""The zoo's image, audio and video networks: sizes as published, and graphs of both kinds taken of them."""

from __future__ import annotations

from collections import Counter
from importlib import import_module

import pytest

from placewright.graph import Graph
from placewright.importers.torch_module import from_torch

pytest.importorskip("torch", reason="the zoo is written in PyTorch")

from torch._subclasses.fake_tensor import FakeTensorMode

from placewright.datasets.zoo import objectives, random_wiring
from placewright.datasets.zoo.inception_v3 import InceptionV3
from placewright.datasets.zoo.layers import rounded
from placewright.datasets.zoo.network import Mode, Network

FAMILIES = (
    *("convolutional", "residual", "gated", "dense", "inception", "light", "mobile", "modern", "cells"),
    *("random_wiring", "segmentation", "multiscale", "detection", "generative", "diffusion", "restoration"),
    *("audio", "video"),
)
NETWORKS: dict[str, Network] = {
    network.name: network
    for family in FAMILIES
    for network in import_module(f"placewright.datasets.zoo.{family}").NETWORKS
}

#: Trainable numbers as the papers' authors or their reference implementations count them.
PUBLISHED = {
    "lenet5": 61_706,
    "alexnet": 60_965_224,
    "vgg11": 132_863_336,
    "vgg16": 138_357_544,
    "vgg19": 143_667_240,
    "resnet18": 11_689_512,
    "resnet34": 21_797_672,
    "resnet50": 25_557_032,
    "resnet101": 44_549_160,
    "resnet152": 60_192_808,
    "wide_resnet28_10": 36_479_194,
    "se_resnet50": 28_088_024,
    "densenet121": 7_978_856,
    "densenet169": 14_149_480,
    "densenet201": 20_013_928,
    "dpn92": 37_668_392,
    "inception_v4": 42_679_816,
    "inception_resnet_v2": 55_843_464,
    "xception": 22_855_952,
    "squeezenet_1_1": 1_235_496,
    "shufflenet_v2": 2_278_604,
    "mobilenet_v1": 4_231_976,
    "mobilenet_v2": 3_504_872,
    "mobilenet_v3_large": 5_483_032,
    "mobilenet_v3_small": 2_542_856,
    "mnasnet_a1": 3_887_038,
    "efficientnet_b0": 5_288_548,
    "efficientnet_b4": 19_341_616,
    "regnet_x_400mf": 5_495_976,
    "regnet_y_400mf": 4_344_144,
    "nasnet_a_mobile": 5_289_978,
    "nasnet_a_large": 88_753_150,
    "convnext_tiny": 28_589_128,
    "yolo_v3": 61_949_149,
    "stable_diffusion": 859_520_964,
    "r3d18": 33_371_472,
}

#: A small network of every family.
SMALL = {
    *("lenet5", "resnet18", "vovnet39", "googlenet", "squeezenet_1_1", "mixer_s16"),
    *("unet", "ssd300", "dcgan", "pix2pix", "vq_vae", "vdsr", "wavenet10", "c3d"),
}


def captured(network: Network, mode: Mode) -> Graph:
    with FakeTensorMode(allow_non_fake_inputs=True):
        model, arguments = network.build()
    return from_torch(model, arguments, training=mode == "training", name=network.name)


def weights(model: object) -> int:
    return sum(parameter.numel() for parameter in model.parameters())  # type: ignore[attr-defined]


def test_no_two_networks_share_a_name() -> None:
    named = [network.name for family in FAMILIES for network in _of(family)]
    assert len(named) == len(set(named)) >= 90


def _of(family: str) -> tuple[Network, ...]:
    networks: tuple[Network, ...] = import_module(f"placewright.datasets.zoo.{family}").NETWORKS
    return networks


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_is_named_like_its_module(family: str) -> None:
    assert {network.family for network in _of(family)} == {family}


@pytest.mark.parametrize(("name", "count"), PUBLISHED.items())
def test_a_network_has_the_published_number_of_weights(name: str, count: int) -> None:
    with FakeTensorMode(allow_non_fake_inputs=True):
        model, _ = NETWORKS[name].build()
    assert weights(model) == count


def test_inception_v3_without_its_auxiliary_classifier_has_the_published_number_of_weights() -> None:
    with FakeTensorMode(allow_non_fake_inputs=True):
        model = InceptionV3()
    assert weights(model) - weights(model.auxiliary) == 23_834_568


@pytest.mark.parametrize("name", sorted(SMALL))
def test_both_graphs_of_a_network_know_every_op_and_the_step_has_all_phases(name: str) -> None:
    inference, step = captured(NETWORKS[name], "inference"), captured(NETWORKS[name], "training")
    for graph in (inference, step):
        assert "warnings" not in graph.metadata
        assert not {"other", "control_flow"} & {op.kind for op in graph.ops}
    phases = Counter(op.phase for op in step.ops)
    assert set(phases) >= {"forward", "backward", "optimizer"}
    # without the backward pass a step is about as long as the inference, with it at least half as long again
    assert len(step.ops) - phases["optimizer"] > 1.5 * len(inference.ops)


def test_ops_of_a_captured_network_only_read_what_stands_before_them() -> None:
    graph = captured(NETWORKS["googlenet"], "training")
    made: set[int] = {index for index, tensor in enumerate(graph.tensors) if tensor.role != "activation"}
    for op in graph.ops:
        assert set(op.inputs) <= made
        made |= set(op.outputs)


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


def test_channels_are_rounded_to_eights_but_never_far_below() -> None:
    # 33.6 is nearest 32, which is above 0.9 * 33.6 = 30.2; 11 is nearest 8, below 9.9, so 16
    assert (rounded(33.6), rounded(11), rounded(1)) == (32, 16, 8)


def test_a_supervised_module_returns_its_output_or_in_training_its_loss() -> None:
    import torch

    model = objectives.Supervised(torch.nn.Identity(), objectives.squared_error)
    image = torch.full((2, 3), 2.0)
    assert model.train()(image) == 4.0
    assert model.eval()(image).shape == (2, 3)
