"""Workloads of learned placers: variables as ops, steps that are told apart, and the table's names."""

from __future__ import annotations

import numpy as np
import pytest
from instances import machine_of, problem_of

pytest.importorskip("torch", reason="workloads are captured from PyTorch modules")

import torch

from placewright.graph import Graph
from placewright.importers.torch.module import from_torch
from placewright.lab.datasets.zoo.unrolled import UnrolledLanguageModel, UnrolledTranslation
from placewright.lab.datasets.zoo.workloads import capture_workload, with_variables, workloads
from placewright.lab.learning.placers.colocation import COLOCRL_RULES, units_of
from placewright.support.errors import InputError


def language_model(layers: int, steps: int) -> Graph:
    words = torch.zeros(2, steps, dtype=torch.int64)
    model = UnrolledLanguageModel(layers=layers, width=4, vocabulary=9)
    return from_torch(model, (words, words), training=True)


def members(graph: Graph, *rules: str) -> list[set[str]]:
    """Return the names of each unit's ops."""
    problem = problem_of(graph, machine_of(2))
    of_op = units_of(problem, rules).of_op
    names = np.array([graph.ops[i].name for i in problem.lowered.graph_op])
    return [set(names[of_op == unit].tolist()) for unit in range(of_op.max() + 1)]


def test_without_variables_a_layer_is_one_group_and_with_them_each_of_its_steps() -> None:
    graph = language_model(layers=2, steps=3)
    products = [op.name for op in graph.ops if op.target == "aten.addmm.default" and op.module.startswith("cells")]
    assert len(products) == 6
    # Ops that read the weights of a layer are placed with them: three products in each of two layers.
    whole = members(graph)
    assert sorted(len(unit & set(products)) for unit in whole if unit & set(products)) == [3, 3]
    apart = members(with_variables(graph), *COLOCRL_RULES)
    assert sorted(len(unit & set(products)) for unit in apart if unit & set(products)) == [1] * 6


def test_variables_stand_with_their_optimizer_and_nothing_else_is_changed() -> None:
    graph = language_model(layers=1, steps=2)
    changed = with_variables(graph)
    variables = [op for op in changed.ops if op.name.startswith("variable:")]
    parameters = {name for name, _ in UnrolledLanguageModel(layers=1, width=4, vocabulary=9).named_parameters()}
    assert {op.name.removeprefix("variable:") for op in variables} == parameters
    assert [op.name for op in changed.ops[len(variables) :]] == [op.name for op in graph.ops]
    for unit in members(changed):
        for name in unit:
            if name.startswith("variable:"):
                assert f"adam:{name.removeprefix('variable:')}" in unit


def test_each_lookup_cell_attention_and_softmax_of_a_translation_is_a_group() -> None:
    words = torch.zeros(2, 3, dtype=torch.int64)
    model = UnrolledTranslation(layers=2, width=4, vocabulary=9)
    graph = with_variables(from_torch(model, (words,) * 3, training=True))
    problem = problem_of(graph, machine_of(2))
    units = units_of(problem, COLOCRL_RULES)
    first = {
        kind: {
            int(units.of_op[place])
            for place, index in enumerate(problem.lowered.graph_op.tolist())
            if graph.ops[index].phase == "forward"
            and graph.ops[index].module.startswith(kind)
            and graph.ops[index].kind != "input"
        }
        for kind in ("encoder", "decoder", "softmax", "attention.query")
    }
    # Two layers of three steps each in encoder and decoder, three steps of attention and softmax.
    assert {kind: len(found) for kind, found in first.items()} == {
        "encoder": 6,
        "decoder": 6,
        "softmax": 3,
        "attention.query": 3,
    }


def test_the_table_names_the_networks_of_the_papers() -> None:
    assert {"rnnlm2", "nmt2", "nmt8-long", "gnmt8", "transformer-xl4", "wavenet4x36", "inception-v3"} <= set(
        workloads()
    )
    with pytest.raises(InputError, match="there is no workload 'rnnlm'; did you mean"):
        capture_workload("rnnlm")


@pytest.mark.long
def test_the_largest_has_more_than_fifty_thousand_nodes() -> None:
    assert len(capture_workload("nmt8-long").ops) > 50_000
