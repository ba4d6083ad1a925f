"""Plans with ops that run again, on two devices and from a file; memory and results in test_limits_in_training.py."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest
import torch
from test_limits_in_training import Residual, assert_alike, assert_same_step, images, square
from torch import nn

import placewright
from placewright.execution.devices import available_cores
from placewright.execution.pytorch import profile as profiling
from placewright.support.errors import InputError

pytestmark = [pytest.mark.heavy, pytest.mark.usefixtures("one_thread_for_an_op")]
TRAINING: dict[str, Any] = {"training": True, "loss": square}


class Dropping(nn.Module):
    """Dropout between layers: what is made again must drop the same."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(6))

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = nn.functional.dropout(torch.tanh(layer(x)), 0.3, self.training)
        return x * torch.rand_like(x)


@pytest.mark.skipif(len(available_cores()) < 2, reason="two CPU devices need a core each")
@pytest.mark.parametrize(
    ("model", "x"), [(Residual(), images(0)), (Dropping(), torch.randn(512, 64))], ids=["residual", "dropping"]
)
def test_two_devices_run_ops_again_and_compute_what_the_module_does(
    model: nn.Module, x: torch.Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(profiling, "_PASSES_NS", 0)
    monkeypatch.setattr(profiling, "_MIN_PASSES", 1)
    options: dict[str, Any] = {"devices": "cpu:0,cpu:1", **TRAINING, "solver": "contiguous-split"}
    with placewright.compile(copy.deepcopy(model), x, **options) as whole:
        peak = max(whole.plan.peak_bytes)
    ours, eager = copy.deepcopy(model), copy.deepcopy(model)
    limits = (int(share * peak) for share in (0.7, 0.65, 0.6, 0.55, 0.5))
    steps = ((limit, placewright.compile(ours, x, **options, memory_limit=limit)) for limit in limits)
    limit, step = next((limit, step) for limit, step in steps if step.plan.reruns)
    with step as planned:
        assert set(planned.plan.device_of.values()) == {0, 1}
        assert max(planned.plan.peak_bytes) <= limit
        for number in range(2):
            assert_same_step(planned, eager, x, number)
            assert_alike(ours, eager)
        plan = planned.plan
    # Reruns may be on any device.
    again = plan.reruns[0].name
    ops = (replace(op, device=1 - op.device) if op.name == again else op for op in plan.ops)
    ours, eager = copy.deepcopy(model), copy.deepcopy(model)
    with placewright.compile(ours, x, **options, plan=replace(plan, ops=tuple(ops))) as elsewhere:
        assert_same_step(elsewhere, eager, x, 0)
        assert_alike(ours, eager)


def test_a_plan_with_reruns_is_saved_and_run_again_for_its_module_alone(tmp_path: Any) -> None:
    model, x = Residual(), images(0)
    with placewright.compile(copy.deepcopy(model), x, devices="cpu:0", **TRAINING) as whole:
        limit = int(0.75 * whole.plan.peak_bytes[0])
    with placewright.compile(copy.deepcopy(model), x, devices="cpu:0", **TRAINING, memory_limit=limit) as planned:
        assert planned.plan.reruns
        placewright.save(planned.plan, tmp_path / "plan.json")
    read = placewright.load(tmp_path / "plan.json")
    ours = copy.deepcopy(model)
    with placewright.compile(ours, x, devices="cpu:0", **TRAINING, plan=read) as again:
        assert_same_step(again, model, x, 0)
        assert_alike(ours, model)
        assert again.plan.reruns == read.reruns
    for blocks in (3, 5):
        with pytest.raises(InputError, match=r"the plan of 'Residual' is for another module|which is not in the graph"):
            placewright.compile(Residual(blocks), x, devices="cpu:0", **TRAINING, plan=read)
