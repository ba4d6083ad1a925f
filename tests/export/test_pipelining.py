"""Split points that torch.distributed.pipelining takes, and stages in two processes that compute as the module."""

from __future__ import annotations

import importlib.util
import itertools
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from instances import sketch
from ports import free_port
from torch import nn
from torch.distributed.pipelining import SplitPoint, pipeline

import placewright
from placewright.export import export_plan, told_of_export
from placewright.export.pipelining import Split, find_split, placed_by, stage_of_ops
from placewright.graph import Graph, Op, Tensor
from placewright.support.errors import InputError

EXAMPLE = Path(__file__).parents[2] / "examples" / "pipeline_stages.py"


def example() -> ModuleType:
    found = importlib.util.spec_from_file_location("pipeline_stages", EXAMPLE)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def planned(model: nn.Module, args: tuple[Any, ...], pins: dict[str, int], devices: str = "2xp100") -> Any:
    graph = placewright.from_torch(model, args)
    return placewright.plan(graph, devices, pins=pins, evaluations=1), graph


def test_two_processes_compute_what_the_module_does(tmp_path: Path) -> None:
    """The committed example, over gloo: each process runs its stage of an exported split on four micro-batches."""
    model, args = example().build()
    plan, graph = planned(model, args, {**{f"{n}.*": 0 for n in range(2)}, **{f"{n}.*": 1 for n in range(2, 6)}})
    export_plan(plan, "pipelining", tmp_path / "split.json", graph=graph)
    split = json.loads((tmp_path / "split.json").read_text())
    assert split == {"split_before": ["2"], "stages": ["gpu0", "gpu1"]}
    rendezvous = {
        "MASTER_ADDR": "localhost",
        "MASTER_PORT": str(free_port()),
        "WORLD_SIZE": "2",
        "OMP_NUM_THREADS": "1",
    }
    ranks = [
        subprocess.Popen(
            [sys.executable, EXAMPLE, tmp_path / "split.json"],
            env={**os.environ, **rendezvous, "RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        told = [process.communicate(timeout=240) for process in ranks]
    finally:
        for process in ranks:
            process.kill()
    assert [process.returncode for process in ranks] == [0, 0], told
    assert told[1][0] == "2 stages, 4 micro-batches: the same numbers\n"


class Tied(nn.Module):
    """A layer that is called twice, an input that is read at the end, a weight that two stages read."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.twice, self.last = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)
        self.last.weight = self.first.weight

    def forward(self, x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.last(self.twice(self.twice(self.first(x)))) * scale
        return result


def test_no_stage_begins_at_a_layer_that_is_called_twice_and_what_a_pipeline_cannot_do_is_told() -> None:
    """Pinned between the two calls; the split is before `last`, one call later."""
    args = (torch.randn(2, 8), torch.randn(8))
    plan, graph = planned(Tied(), args, {"first": 0, "twice": 1, "last": 1})
    split = find_split(graph, placed_by(plan, graph))
    assert split.split_before == ("last",)
    assert pipeline(Tied(), args, split_spec={"last": SplitPoint.BEGINNING}).num_stages == 2
    told, objections = told_of_export(plan, "pipelining", graph)
    assert re.match(r"step time: plan \S+ \S+; this split ", told[1])
    assert "stage 1 reads the input 'scale', which torch.distributed.pipelining hands to stage 0 alone" in objections
    assert "several stages read first.weight: each has a copy, and training must add up their gradients" in objections


class Activated(nn.Module):
    """A layer, and an activation that may be another one's as well."""

    def __init__(self, activation: nn.Module) -> None:
        super().__init__()
        self.layer, self.activation = nn.Linear(8, 8), activation

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.activation(self.layer(x))
        return result


def test_no_stage_begins_where_pytorch_begins_none_or_two_because_of_a_shared_layer() -> None:
    """The activation of both blocks: a stage cannot begin at it, where PyTorch splits at both calls, nor at the second
    block, which PyTorch refuses. It can at the block's layer, and at a block whose activation is its own."""
    args = (torch.randn(2, 8),)
    for shared, expected in ((True, "1.layer"), (False, "1")):
        activations = [nn.Tanh(), nn.Tanh()]
        model = nn.Sequential(*(Activated(activations[0 if shared else place]) for place in range(2)), nn.Linear(8, 8))
        plan, graph = planned(model, args, {"0.*": 0, "1.layer": 1, "1.activation": 1, "2": 1})
        assert find_split(graph, placed_by(plan, graph)).split_before == (expected,)
        assert pipeline(model, args, split_spec={expected: SplitPoint.BEGINNING}).num_stages == 2


def test_no_stage_begins_at_a_layer_that_is_called_by_two_names_one_after_the_other() -> None:
    """Both calls have the same name and lines of their own; the split is before what comes after."""

    class Again(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.layer, self.last = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)
            self.again = self.layer

        def forward(self, x: torch.Tensor) -> Any:
            x = self.layer(self.first(x))
            x = self.again(x)
            return self.last(x)

    args = (torch.randn(2, 8),)
    plan, graph = planned(Again(), args, {"first": 0, "layer": 1, "last": 1})
    assert find_split(graph, placed_by(plan, graph)).split_before == ("last",)
    assert pipeline(Again(), args, split_spec={"last": SplitPoint.BEGINNING}).num_stages == 2


def test_no_stage_begins_at_a_list_of_layers() -> None:
    """It is never called, so PyTorch never splits there."""

    class InTurn(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.rest = nn.Linear(8, 8), nn.ModuleList([nn.Linear(8, 8), nn.Linear(8, 8)])

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.first(x)
            for layer in self.rest:
                x = layer(x)
            return x

    plan, graph = planned(InTurn(), (torch.randn(2, 8),), {"first": 0, "rest.*": 1})
    assert find_split(graph, placed_by(plan, graph)).split_before == ("rest.0",)


def test_no_stage_begins_between_ops_that_overwrite_one_buffer() -> None:
    """Both blocks count with one normalisation: of two stages each would have its own running statistics. In an
    inference these are only read."""
    normalised = nn.BatchNorm1d(8)
    model = nn.Sequential(Activated(normalised), Activated(normalised), nn.Linear(8, 8))
    for training, expected in ((True, "2"), (False, "1.layer")):
        graph = placewright.from_torch(model, (torch.randn(2, 8),), training=training)
        plan = placewright.plan(graph, "2xp100", pins={"0.layer": 0, "1.layer": 1, "2": 1}, evaluations=1)
        assert find_split(graph, placed_by(plan, graph)).split_before == (expected,)


def test_a_training_step_is_split_and_its_backward_stands_with_its_forward() -> None:
    """Three stages on three devices; every op of a block, forward or backward, is in one stage."""
    model, args = example().build()
    graph = placewright.from_torch(model, args, training=True)
    pins = {f"{block}{what}": block // 2 for block in range(6) for what in (".*",)} | {"6": 2}
    plan = placewright.plan(graph, "3xp100", pins=pins, evaluations=1)
    split = find_split(graph, placed_by(plan, graph))
    assert split.split_before == ("2", "4")
    stages = stage_of_ops(graph, split)
    for index, op in enumerate(graph.ops):
        if op.module.partition(".")[0].isdecimal():
            assert stages[index] == min(int(op.module.partition(".")[0]) // 2, 2), op
    assert {op.phase for op in graph.ops} >= {"forward", "backward"}


def test_a_plan_of_one_device_or_without_layers_has_no_split() -> None:
    plan, graph = planned(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)), (torch.randn(2, 4),), {"*": 0})
    with pytest.raises(InputError, match="uses one device, so there is nothing to split"):
        find_split(graph, placed_by(plan, graph))
    with pytest.raises(InputError, match="has 0 layers at which a stage can begin, and 2 devices are used"):
        find_split(chain(["", ""]), {0: (0, 1), 1: (1, 1)})


def test_layers_that_take_no_time_are_split_and_judged_too() -> None:
    graph = sketch("a -> t0=8 | module=first", "b t0 -> t1=8 | module=second", kind="copy", time_ns=0)
    plan = placewright.plan(graph, "2xp100", pins={"a": 0, "b": 1}, evaluations=5)
    assert find_split(graph, placed_by(plan, graph)).split_before == ("second",)
    assert told_of_export(plan, "pipelining", graph)[0]


def test_without_the_graph_there_is_no_split(tmp_path: Path) -> None:
    plan, _ = planned(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)), (torch.randn(2, 4),), {"0": 0, "1": 1})
    with pytest.raises(InputError, match="say which graph it is for"):
        export_plan(plan, "pipelining", tmp_path / "split.json")


def chain(modules: list[str]) -> Graph:
    """One op after the other, each in its module."""
    ops = tuple(
        Op(name=f"op{n}", kind="other", module=module, inputs=(n - 1,) if n else (), outputs=(n,))
        for n, module in enumerate(modules)
    )
    return Graph(name="chain", ops=ops, tensors=tuple(Tensor(name=f"t{n}", size_bytes=4) for n in range(len(ops))))


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 5)), min_size=3, max_size=8))
def test_no_split_keeps_more_time_where_the_plan_has_it(ops: list[tuple[int, int]]) -> None:
    """Against all choices of layers, each layer one op."""
    graph, placed = chain([f"layer.{n}" for n in range(len(ops))]), dict(enumerate(ops))
    if len({device for device, _ in ops}) < 2:
        return
    found = find_split(graph, placed)

    def kept(split: Split) -> int:
        stages = stage_of_ops(graph, split)
        return sum(time for (device, time), stage in zip(ops, stages, strict=True) if split.devices[stage] == device)

    every = itertools.combinations(range(1, len(ops)), len(found.devices) - 1)
    others = [Split(split_before=(), begins=(0, *cuts), devices=found.devices) for cuts in every]
    assert kept(found) == max(map(kept, others))
