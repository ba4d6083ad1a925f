"""Placements that experts make by hand: the device of each layer, lookup and softmax."""

from __future__ import annotations

from collections import defaultdict
from functools import cache

import pytest
from instances import machine_of, problem_of

pytest.importorskip("torch", reason="networks with layers are captured from PyTorch modules")

import torch
from torch import nn

from placewright.graph import Graph
from placewright.importers.torch.module import from_torch
from placewright.lab.datasets.zoo.unrolled import UnrolledLanguageModel, UnrolledTranslation
from placewright.lab.datasets.zoo.workloads import with_variables
from placewright.lab.learning.placers.layer_wise import layer_wise_placement

WORDS = torch.zeros(2, 2, dtype=torch.int64)


def devices(graph: Graph, num_devices: int, *phases: str) -> dict[str, set[int]]:
    """Return the devices of each module's ops in the given phases, without variables."""
    problem = problem_of(graph, machine_of(num_devices))
    found: defaultdict[str, set[int]] = defaultdict(set)
    for op, device in zip(problem.lowered.graph_op, layer_wise_placement(problem), strict=True):
        described = graph.ops[op]
        if described.phase in phases and described.kind != "input":
            found[described.module].add(int(device))
    return dict(found)


@cache
def translation(layers: int) -> Graph:
    model = UnrolledTranslation(layers=layers, width=4, vocabulary=9)
    return with_variables(from_torch(model, (WORDS,) * 3, training=True))


def where(found: dict[str, set[int]], prefix: str) -> set[int]:
    return set().union(*(places for module, places in found.items() if module.startswith(prefix)))


def test_each_layer_of_a_language_model_has_a_device_lookups_stand_with_the_first_and_the_softmax_with_the_last() -> (
    None
):
    model = UnrolledLanguageModel(layers=2, width=4, vocabulary=9)
    found = devices(with_variables(from_torch(model, (WORDS, WORDS), training=True)), 2, "forward", "backward")
    assert where(found, "cells.0") == where(found, "embedding") == {0}
    assert where(found, "cells.1") == where(found, "softmax") == {1}


@pytest.mark.parametrize("phase", ["forward", "backward"])
def test_on_two_devices_encoder_and_decoder_of_a_translation_begin_at_the_first(phase: str) -> None:
    found = devices(translation(2), 2, phase)
    for stack in ("encoder", "decoder"):
        assert where(found, f"{stack}.0") == {0}
        assert where(found, f"{stack}.1") == {1}
    assert where(found, "source") <= {0}
    assert where(found, "target") <= {0}
    assert where(found, "attention") == where(found, "softmax") == {1}


def test_on_four_devices_each_of_four_layers_has_its_own_and_lookups_stand_with_the_layer_that_follows() -> None:
    found = devices(translation(2), 4, "forward")
    layers = [where(found, name) for name in ("encoder.0", "encoder.1", "decoder.0", "decoder.1")]
    assert layers == [{0}, {1}, {2}, {3}]
    assert where(found, "source") == {0}
    assert where(found, "target") == {2}
    assert where(found, "softmax") == {3}


def test_more_layers_than_devices_share_them_in_order() -> None:
    found = devices(translation(4), 2, "forward")
    assert [where(found, f"decoder.{layer}") for layer in range(4)] == [{0}, {0}, {1}, {1}]


def test_variables_stand_where_they_are_read_first() -> None:
    graph = translation(2)
    problem = problem_of(graph, machine_of(4))
    placement = layer_wise_placement(problem)
    place = {graph.ops[op].name: int(device) for op, device in zip(problem.lowered.graph_op, placement, strict=True)}
    variables = {name: device for name, device in place.items() if name.startswith("variable:")}
    for name, device in variables.items():
        for prefix, expected in (("encoder.1", 1), ("decoder.0", 2), ("softmax", 3), ("source", 0)):
            if name.startswith(f"variable:{prefix}"):
                assert device == expected, name
    assert {"variable:encoder.1", "variable:decoder.0"} <= {".".join(name.split(".")[:2]) for name in variables}


def test_a_network_without_steps_is_cut_into_runs_of_as_many_layers() -> None:
    model = nn.Sequential(*(nn.Conv2d(3, 3, 3, padding=1) for _ in range(6)))
    graph = from_torch(model, (torch.zeros(1, 3, 8, 8),))
    found = devices(graph, 3, "", "forward")
    assert [found[str(layer)] for layer in range(6)] == [{0}, {0}, {1}, {1}, {2}, {2}]
