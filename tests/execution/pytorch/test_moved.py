"""Inferences whose weights lie in the memory of the host: results are the module's."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from gpu_modules import brought_to
from stand_in_gpu import StandIns
from torch import nn

import placewright
from placewright.execution import devices as host
from placewright.execution.devices import available_cores
from placewright.execution.pytorch import machine
from placewright.machine import Link, Machine
from placewright.machines import limits
from placewright.machines.host import HostMemory
from placewright.support.torch_threads import torch_threads

pytestmark = pytest.mark.heavy

INFERENCE: dict[str, Any] = {"devices": "cuda:0", "evaluations": 20}


def fast_host(of: Machine) -> HostMemory:
    """Return a host memory for any machine, over links of 1 TB/s without latency."""
    links = (Link(bandwidth_bytes_per_s=1e12, latency_ns=0),) * of.num_devices
    return HostMemory(there=links, back=links)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> StandIns:
    """A stand-in that objects to what a GPU would do wrong, with the memory of the host over a fast link."""
    found = StandIns(1)
    found.install(monkeypatch.setattr)
    monkeypatch.setattr(limits, "usual_host", fast_host)
    return found


@pytest.fixture(autouse=True)
def _one_core(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Use one thread, as the device here does, so that the module computes the same last bits; time ops once, as the
    stand-in keeps all memory that it ever allocated."""
    cores = available_cores()[:1]
    for module in (host, machine):
        monkeypatch.setattr(module, "available_cores", lambda: cores)
    monkeypatch.setattr("placewright.execution.pytorch.profile._PASSES_NS", 0)
    monkeypatch.setattr("placewright.execution.pytorch.profile._MIN_PASSES", 1)
    monkeypatch.setattr("placewright.execution.pytorch.link_times._LARGE", 2**11)
    with torch_threads(1):
        yield


class Tied(nn.Module):
    """The same weights at the beginning and, transposed, at the end; between them a stack that has most of them."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(32, 24)
        self.layers = nn.ModuleList(nn.Linear(24, 24) for _ in range(6))
        self.norm = nn.LayerNorm(24)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Scores of tokens."""
        x = self.embedding(tokens)
        for layer in self.layers:
            x = x + torch.relu(layer(x))
        return self.norm(x) @ self.embedding.weight.t()


def convolutional() -> nn.Module:
    """A network with running statistics, which are buffers, and two layers that share a weight."""
    shared = nn.Conv2d(12, 12, 3, padding=1)
    parts = [nn.Conv2d(3, 12, 3), nn.BatchNorm2d(12), nn.ReLU(), shared, nn.ReLU(), shared]
    parts += [layer for _ in range(4) for layer in (nn.GELU(), nn.Conv2d(12, 12, 3, padding=1))]
    return nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(12, 10))


def given(name: str) -> tuple[nn.Module, torch.Tensor]:
    torch.manual_seed(0)
    if name == "tied":
        return Tied().eval(), torch.randint(0, 32, (2, 3))
    return convolutional().eval(), torch.randn(1, 3, 8, 8)


def limit_of(model: nn.Module, x: torch.Tensor, share: float) -> int:
    """A share of the module's parameters plus all else that its inference takes."""
    with placewright.compile(copy.deepcopy(model), (x,), **INFERENCE) as whole:
        weights = sum(tensor.nbytes for tensor in model.parameters())
        return int(whole.plan.peak_bytes[0] - (1 - share) * weights)


@pytest.mark.parametrize("share", [0.7, 0.45])
@pytest.mark.parametrize("name", ["tied", "convolutional"])
def test_an_inference_whose_weights_stream_gives_what_the_module_gives(gpu: StandIns, name: str, share: float) -> None:
    model, x = given(name)
    limit = limit_of(model, x, share)
    ours = copy.deepcopy(model)
    with placewright.compile(ours, (x,), **INFERENCE, memory_limit=limit) as planned, torch.no_grad():
        weights = [move for move in planned.plan.moves if move.leaves_before is None]
        assert weights
        assert planned.plan.peak_bytes[0] <= limit
        for _ in range(2):
            before = len(gpu.recorder.log)
            assert torch.equal(planned(x), model(x))
            copies = [entry[1:3] for entry in gpu.recorder.log[before:] if entry[0] == "copy"]
            assert copies.count(("host", "cuda:0")) >= sum(len(move.returns_before) for move in weights)
        # A weight that has changed since comes as it is now.
        for module in (model, ours):
            for parameter in module.parameters():
                parameter.mul_(0.5)
        assert torch.equal(planned(x), model(x))


def test_a_plan_that_streams_weights_is_saved_and_run_again(gpu: StandIns, tmp_path: Any) -> None:
    model, x = given("tied")
    limit = limit_of(model, x, 0.5)
    with placewright.compile(copy.deepcopy(model), (x,), **INFERENCE, memory_limit=limit) as planned:
        placewright.save(planned.plan, tmp_path / "plan.json")
    read = placewright.load(tmp_path / "plan.json")
    assert any(move.leaves_before is None for move in read.moves)
    with placewright.compile(copy.deepcopy(model), (x,), devices="cuda:0", plan=read) as again, torch.no_grad():
        assert torch.equal(again(x), model(x))


def test_weights_that_lie_on_the_gpu_stay_there(gpu: StandIns) -> None:
    model, x = given("tied")
    limit = limit_of(model, x, 0.5)
    held = copy.deepcopy(model)
    brought_to(gpu.devices[0], held)
    with pytest.raises(placewright.InputError, match=r"no plan was found that fits: .* missing on cuda:0"):
        placewright.compile(held, (x,), **INFERENCE, memory_limit=limit)
    # Where they come to lie there later, the step is refused before anything runs.
    with placewright.compile(model, (x,), **INFERENCE, memory_limit=limit) as planned:
        brought_to(gpu.devices[0], model)
        with pytest.raises(placewright.InputError, match=r"no room for the weight '.*' on cuda:0, where it"):
            planned(x)
