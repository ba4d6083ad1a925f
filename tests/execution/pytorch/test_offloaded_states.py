"""Optimizer states at the host, on a stand-in for a GPU: results are the optimizer's own, and few are on the device."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import torch
from gpu_modules import brought_to
from outside_host import OutsideHost
from stand_in_gpu import Device, StandIns
from torch import nn

import placewright
from placewright.execution.pytorch import offloaded_states
from placewright.execution.pytorch.memory import allocated_peak

WIDTH = 64
#: Bytes of one layer's weights.
LAYER = 4 * WIDTH**2
LAYERS = 6
Make = Callable[[Any], torch.optim.Optimizer]

MAKERS: dict[str, Make] = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.1),
    "momentum": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
    "adamw": lambda parameters: torch.optim.AdamW(parameters, amsgrad=True),
    "fused": lambda parameters: torch.optim.AdamW(parameters, fused=True),
    "adagrad": torch.optim.Adagrad,
    "adafactor": torch.optim.Adafactor,
    "muon": torch.optim.Muon,
    "asgd": lambda parameters: torch.optim.ASGD(parameters, t0=1),
}


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[Device]:
    """A stand-in for a GPU, on which all that the test calls runs."""
    stand_ins = StandIns(1)
    (device,) = stand_ins.devices
    monkeypatch.setattr(offloaded_states, "_driver_of", lambda optimizer: device)
    with device.on(device.default):
        yield device
        device.finish(device.recorded(device.default))


def layers() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(*(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(LAYERS)))


def unchanged(optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
    return optimizer


def on(gpu: Device) -> tuple[nn.Sequential, torch.Tensor]:
    model = layers()
    (x,) = brought_to(gpu, model, torch.ones(2, WIDTH))
    return model, x


def stepped(model: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor) -> None:
    model(x).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()


def ordinary(name: str, steps: int) -> tuple[nn.Module, torch.optim.Optimizer]:
    model = layers()
    optimizer = MAKERS[name](model.parameters())
    for _ in range(steps):
        stepped(model, optimizer, torch.ones(2, WIDTH))
    return model, optimizer


def plain_state(optimizer: torch.optim.Optimizer) -> Any:
    return copy.deepcopy(optimizer.state_dict()["state"])


def assert_same(one: Any, other: Any) -> None:
    torch.testing.assert_close(one, other, rtol=0, atol=0)


def at_host(optimizer: torch.optim.Optimizer, gpu: Device) -> bool:
    states = [
        value for state in optimizer.state.values() for value in state.values() if isinstance(value, torch.Tensor)
    ]
    return not any(gpu.holds(each) for each in states if each.dim())


@pytest.mark.parametrize("in_backward", [False, True])
@pytest.mark.parametrize("steps_before", [0, 1])
@pytest.mark.parametrize("name", MAKERS)
def test_steps_are_the_optimizers_own(name: str, steps_before: int, in_backward: bool, gpu: Device) -> None:
    model, x = on(gpu)
    optimizer = MAKERS[name](model.parameters())
    for _ in range(steps_before):
        stepped(model, optimizer, x)
    assert placewright.offload_states(optimizer) is optimizer
    if in_backward:
        placewright.step_in_backward(optimizer)
    for _ in range(3):
        assert at_host(optimizer, gpu)
        stepped(model, optimizer, x)
    assert at_host(optimizer, gpu)
    with torch.utils._python_dispatch._disable_current_modes():
        plain, other = ordinary(name, steps_before + 3)
        assert_same(dict(plain.named_parameters()), dict(model.named_parameters()))
        assert_same(plain_state(other), plain_state(optimizer))


def test_states_of_two_parameters_are_on_the_device_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ordinary loop has the twelve states of all six there, together with six gradients."""
    monkeypatch.setattr(offloaded_states, "_driver_of", lambda optimizer: OutsideHost())

    def both(optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
        return placewright.step_in_backward(placewright.offload_states(optimizer))

    def run(own: Any) -> None:
        optimizer = own(torch.optim.AdamW(model.parameters(), fused=True))
        for _ in range(2):
            stepped(model, optimizer, x)

    peaks = []
    for own in (unchanged, placewright.offload_states, both):
        model, x = layers(), torch.ones(2, WIDTH)
        peaks.append(allocated_peak(partial(run, own)) / LAYER)
    assert 12 + LAYERS < peaks[0] < 12 + LAYERS + 1
    assert 4 + LAYERS < peaks[1] < 4 + LAYERS + 1
    assert 4 + 1 < peaks[2] < 4 + 2


@pytest.mark.parametrize("name", ["adamw", "fused", "adagrad"])
def test_a_state_dict_goes_on_in_an_ordinary_loop_and_back(name: str, gpu: Device) -> None:
    model, x = on(gpu)
    optimizer = placewright.offload_states(MAKERS[name](model.parameters()))
    for _ in range(2):
        stepped(model, optimizer, x)
    with torch.utils._python_dispatch._disable_current_modes():
        plain, other = ordinary(name, 0)
        plain.load_state_dict(model.state_dict())
        other.load_state_dict(copy.deepcopy(optimizer.state_dict()))
        for _ in range(2):
            stepped(plain, other, torch.ones(2, WIDTH))
        saved = copy.deepcopy(other.state_dict())
        values = {name: value.clone() for name, value in plain.state_dict().items()}
        stepped(plain, other, torch.ones(2, WIDTH))
    optimizer.load_state_dict(saved)
    assert at_host(optimizer, gpu)
    with torch.no_grad():
        for name, value in values.items():
            model.get_parameter(name).copy_(gpu.brought(value))
    stepped(model, optimizer, x)
    with torch.utils._python_dispatch._disable_current_modes():
        assert_same(dict(plain.named_parameters()), dict(model.named_parameters()))
        assert_same(plain_state(other), plain_state(optimizer))


def test_a_closure_runs_once_and_gradients_are_there_after_the_step(gpu: Device) -> None:
    model, x = on(gpu)
    optimizer = MAKERS["adamw"](model.parameters())
    before: list[int] = []
    optimizer.register_step_pre_hook(lambda *_: before.append(1))
    placewright.offload_states(optimizer)
    for _ in range(2):
        optimizer.zero_grad()

        def closure() -> torch.Tensor:
            loss: torch.Tensor = model(x).square().mean()
            loss.backward()
            return loss

        assert optimizer.step(closure).item() > 0
    assert before == [1, 1]
    assert all(parameter.grad is not None for parameter in model.parameters())
    with torch.utils._python_dispatch._disable_current_modes():
        assert_same(dict(ordinary("adamw", 2)[0].named_parameters()), dict(model.named_parameters()))


def test_a_hook_that_would_see_no_gradients_is_refused(gpu: Device) -> None:
    model, x = on(gpu)
    optimizer = placewright.offload_states(MAKERS["adamw"](model.parameters()))
    optimizer.register_step_pre_hook(lambda *_: None)
    with pytest.raises(placewright.InputError, match=r"^a hook before the step was registered after offload_states, a"):
        stepped(model, optimizer, x)


def test_optimizers_that_cannot_have_it_are_refused(gpu: Device) -> None:
    model, _ = on(gpu)
    with pytest.raises(
        placewright.InputError, match=r"^LBFGS calls a closure .*; offload_states needs another optimiz"
    ):
        placewright.offload_states(torch.optim.LBFGS(model.parameters()))
    optimizer = placewright.offload_states(MAKERS["adamw"](model.parameters()))
    with pytest.raises(placewright.InputError, match=r"^the states of this AdamW are at the host already; call offloa"):
        placewright.offload_states(optimizer)


def test_parameters_of_the_host_are_refused() -> None:
    with pytest.raises(placewright.InputError, match=r"^the parameters of AdamW lie on cpu; offload_states brings sta"):
        placewright.offload_states(torch.optim.AdamW(layers().parameters()))
