"""Steps that move tensors to the host and back, and inferences whose weights lie there: loss, gradients, buffers, draws
and results are the module's."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from gpu_modules import brought_to
from stand_in_gpu import StandIns
from test_rematerialized import MODULES, square, step_of
from torch import nn

import placewright
from placewright.api import memory_limits
from placewright.execution import devices as host
from placewright.execution.devices import available_cores
from placewright.execution.pytorch import machine
from placewright.machine import Link, Machine
from placewright.machines.host import HostMemory
from placewright.support.torch_threads import torch_threads

pytestmark = pytest.mark.heavy

OPTIONS: dict[str, Any] = {"devices": "cuda:0", "training": True, "loss": square}
INFERENCE: dict[str, Any] = {"devices": "cuda:0", "evaluations": 20}


def fast_host(of: Machine) -> HostMemory:
    """Beside any machine."""
    links = (Link(bandwidth_bytes_per_s=1e12, latency_ns=0),) * of.num_devices
    return HostMemory(there=links, back=links)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> StandIns:
    """A stand-in that objects to what a GPU would do wrong, beside the memory of the host over a fast link."""
    found = StandIns(1)
    found.install(monkeypatch.setattr)
    monkeypatch.setattr(memory_limits, "usual_host", fast_host)
    return found


@pytest.fixture(autouse=True)
def _one_core(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The module itself computes with as many threads as the device here does, and so to the same last bits. Ops are
    timed once, as the stand-in keeps all memory that there ever was."""
    cores = available_cores()[:1]
    for module in (host, machine):
        monkeypatch.setattr(module, "available_cores", lambda: cores)
    monkeypatch.setattr("placewright.execution.pytorch.profile._PASSES_NS", 0)
    monkeypatch.setattr("placewright.execution.pytorch.profile._MIN_PASSES", 1)
    monkeypatch.setattr("placewright.execution.pytorch.link_times._LARGE", 2**11)
    with torch_threads(1):
        yield


def built(name: str, share: float) -> tuple[nn.Module, torch.Tensor, int, list[str]]:
    """A module, its argument, a limit that leaves a share of what its step takes beside them, and its ops."""
    torch.manual_seed(0)
    build, shape = MODULES[name]
    model, x = build(), torch.randn(shape)
    with placewright.compile(copy.deepcopy(model), (x,), **OPTIONS) as whole:
        peak, ops = whole.plan.peak_bytes[0], [op.name for op in whole.plan.ops]
    held = sum(tensor.nbytes for tensor in (*model.parameters(), *model.buffers(), x))
    return model, x, int(held + share * (peak - held)), ops


def check_step(step: Any, ours: nn.Module, eager: nn.Module, x: torch.Tensor, seed: int) -> None:
    """Of the module and of what it gets, bit by bit; gradients add up."""
    torch.manual_seed(seed)
    found, drawn = step(x), torch.rand(1)
    torch.manual_seed(seed)
    assert torch.equal(found, step_of(eager, x))
    assert torch.equal(drawn, torch.rand(1))
    named = [*eager.named_parameters(), *eager.named_buffers()]
    for (key, wanted), got in zip(named, [*ours.parameters(), *ours.buffers()], strict=True):
        assert torch.equal(wanted, got), key
        if wanted.grad is not None:
            assert torch.equal(wanted.grad, got.grad), key


@pytest.mark.parametrize("reruns", [False, True], ids=["moves", "moves and reruns"])
@pytest.mark.parametrize("name", MODULES)
def test_a_step_that_moves_tensors_is_the_modules_step(gpu: StandIns, name: str, reruns: bool) -> None:
    model, x, limit, ops = built(name, 0.6)
    ours, eager = copy.deepcopy(model), copy.deepcopy(model)
    # What all but the first ops make stays, so that some run again.
    keep = [f"move:{op}" for op in ops[len(ops) // 12 :]] if reruns else ["recompute:*"]
    with placewright.compile(ours, (x,), **OPTIONS, memory_limit=limit, keep=keep, evaluations=20) as planned:
        assert planned.plan.moves
        assert bool(planned.plan.reruns) == reruns
        assert planned.plan.peak_bytes[0] <= limit
        before = len(gpu.recorder.log)
        check_step(planned, ours, eager, x, 0)
        copies = [entry[1:3] for entry in gpu.recorder.log[before:] if entry[0] == "copy"]
        moves = planned.plan.moves
        assert copies.count(("cuda:0", "host")) >= len(moves)
        assert copies.count(("host", "cuda:0")) >= sum(len(move.returns_before) for move in moves)
        # The second step finds gradients, for which its plan leaves room.
        check_step(planned, ours, eager, x, 1)


@pytest.mark.parametrize("raises", ["aten::tanh_backward", "aten::mm", "aten::addmm"])
def test_after_a_step_that_was_interrupted_the_next_is_right(gpu: StandIns, raises: str) -> None:
    model, x, limit, _ = built("dropping", 0.6)
    ours, eager = copy.deepcopy(model), copy.deepcopy(model)
    keep = ["recompute:*"]
    with placewright.compile(ours, (x,), **OPTIONS, memory_limit=limit, keep=keep, evaluations=20) as planned:
        assert planned.plan.moves
        gpu.devices[0].exhausted_by.add(raises)
        with pytest.raises(placewright.DeviceError, match="cuda:0 has too little memory for the op"):
            planned(x)
        gpu.devices[0].exhausted_by.clear()
        for each in ours.parameters():
            each.grad = None
        check_step(planned, ours, eager, x, 0)
        check_step(planned, ours, eager, x, 1)


def test_a_plan_with_moves_is_saved_and_run_again(gpu: StandIns, tmp_path: Any) -> None:
    model, x, limit, _ = built("dropping", 0.6)
    with placewright.compile(
        copy.deepcopy(model), (x,), **OPTIONS, memory_limit=limit, keep=["recompute:*"], evaluations=20
    ) as planned:
        placewright.save(planned.plan, tmp_path / "plan.json")
    read = placewright.load(tmp_path / "plan.json")
    assert read.moves
    ours, eager = copy.deepcopy(model), copy.deepcopy(model)
    with placewright.compile(ours, (x,), **OPTIONS, plan=read) as again:
        check_step(again, ours, eager, x, 0)


def test_on_cores_of_the_host_nothing_is_moved() -> None:
    torch.manual_seed(0)
    build, shape = MODULES["dropping"]
    model, x = build(), torch.randn(shape)
    options = {**OPTIONS, "devices": "cpu:0"}
    with placewright.compile(copy.deepcopy(model), (x,), **options) as whole:
        peak = whole.plan.peak_bytes[0]
    with placewright.compile(model, (x,), **options, memory_limit=int(0.8 * peak), evaluations=20) as planned:
        assert planned.plan.reruns
        assert planned.plan.moves == ()
        assert not any(device.is_host for device in planned.plan.machine.devices)


def test_too_little_memory_of_the_host_is_one_sentence(gpu: StandIns, monkeypatch: pytest.MonkeyPatch) -> None:
    model, x, limit, _ = built("dropping", 0.6)
    ours, eager = copy.deepcopy(model), copy.deepcopy(model)

    def none_left(row: Any) -> Any:
        raise RuntimeError("CUDA error: out of memory")

    keep = ["recompute:*"]
    with placewright.compile(ours, (x,), **OPTIONS, memory_limit=limit, keep=keep, evaluations=20) as planned:
        with monkeypatch.context() as exhausted:
            exhausted.setattr(gpu.devices[0], "sent_home", none_left)
            with pytest.raises(placewright.DeviceError, match=r"^the host has too little memory for what cuda:0 moves"):
                planned(x)
        check_step(planned, ours, eager, x, 0)


def test_what_is_recorded_moves_nothing(gpu: StandIns) -> None:
    model, x, limit, _ = built("shared", 0.6)
    recorded = {**OPTIONS, "cuda_graph": True}
    with placewright.compile(copy.deepcopy(model), (x,), **OPTIONS, memory_limit=limit, evaluations=20) as planned:
        assert planned.plan.moves
        with pytest.raises(placewright.InputError, match=r"^the plan moves tensors to the host's memory, and a CUDA"):
            placewright.compile(copy.deepcopy(model), (x,), **recorded, plan=planned.plan)
    brought_to(gpu.devices[0], model)
    with placewright.compile(model, (x,), **recorded, memory_limit=limit, evaluations=20) as again:
        assert again.plan.reruns
        assert not again.plan.moves


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
    """With running statistics, which are buffers, and two layers that share a weight."""
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
    """A share of the module's parameters, beside what else its inference takes."""
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


@pytest.mark.parametrize("devices", ["cpu:0,cpu:1", "cuda:0,cuda:1"])
def test_a_step_of_two_devices_that_moves_tensors_is_the_modules_step(
    devices: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    StandIns(2).install(monkeypatch.setattr)
    monkeypatch.setattr(memory_limits, "usual_host", fast_host)
    cores = (available_cores() * 2)[:2]
    for module in (host, machine):
        monkeypatch.setattr(module, "available_cores", lambda: cores)
    torch.manual_seed(0)
    layers = [layer for _ in range(6) for layer in (nn.Linear(64, 64), nn.Tanh())]
    model, x = nn.Sequential(*layers, nn.Dropout(0.2)), torch.randn(512, 64)
    pins = {str(number): int(number >= 6) for number in range(13)}
    ours, eager = copy.deepcopy(model), copy.deepcopy(model)
    options: dict[str, Any] = {**OPTIONS, "devices": devices, "pins": pins, "keep": ["recompute:*"]}
    with placewright.compile(ours, (x,), **options, memory_limit=720_000) as planned:
        assert {planned.plan.device_of[f"{move.tensor}@leave"] for move in planned.plan.moves} == {0, 1}
        assert max(planned.plan.peak_bytes[:2]) <= 720_000
        for seed in range(2):
            check_step(planned, ours, eager, x, seed)
