"""Steps for which a GPU, here a stand-in, has no room unless a limit is kept."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from stand_in_gpu import StandIns
from torch import nn

import placewright
from placewright.execution.pytorch.step import TorchStep

pytestmark = pytest.mark.heavy


def layers() -> nn.Module:
    return nn.Sequential(*(nn.Sequential(nn.Linear(32, 32), nn.Tanh()) for _ in range(6)))


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> StandIns:
    found = StandIns(1)
    found.install(monkeypatch.setattr)
    return found


def exhausted(original: Callable[..., Any]) -> Callable[..., Any]:
    """The method of a step, for which there is too little memory unless something runs again or is moved."""

    def instead(step: TorchStep, *args: Any) -> Any:
        if not (step.plan.reruns or step.plan.moves):
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        return original(step, *args)

    return instead


def test_a_step_that_does_not_fit_is_timed_as_it_would_fit(gpu: StandIns, monkeypatch: pytest.MonkeyPatch) -> None:
    model, x = layers(), torch.randn(256, 32)
    with placewright.compile(copy.deepcopy(model), x, devices="cuda:0", training=True) as whole:
        peak = whole.plan.peak_bytes[0]
    monkeypatch.setattr(TorchStep, "workspaces", exhausted(TorchStep.workspaces))
    with pytest.raises(placewright.DeviceError, match=r"^there is too little memory to time ops: CUDA out of memory"):
        placewright.compile(copy.deepcopy(model), x, devices="cuda:0", training=True)
    ours, eager = copy.deepcopy(model), copy.deepcopy(model)
    with placewright.compile(ours, x, devices="cuda:0", training=True, memory_limit=int(0.7 * peak)) as step:
        assert step.plan.reruns or step.plan.moves
        assert step.plan.time_sources is not None
        assert step.plan.time_sources.measured > 0
        step(x)
    eager(x).mean().backward()
    for own, wanted in zip(ours.parameters(), eager.parameters(), strict=True):
        assert own.grad is not None
        assert wanted.grad is not None
        assert torch.equal(own.grad, wanted.grad)


def test_what_an_allocator_takes_beyond_a_plan_is_planned_for(gpu: StandIns, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes 1,000 bytes more than any plan says, of some 400,000: the plan leaves room for them."""
    model, x = layers(), torch.randn(256, 32)
    with placewright.compile(copy.deepcopy(model), x, devices="cuda:0", training=True) as whole:
        limit = int(0.7 * whole.plan.peak_bytes[0])
    monkeypatch.setattr(TorchStep, "peak_bytes", lambda step, *_: step.plan.peak_bytes[0] + 1000)
    with placewright.compile(model, x, devices="cuda:0", training=True, memory_limit=limit) as step:
        assert step.plan.peak_bytes[0] + 1000 <= limit
