"""Plans on real GPUs; all of this is left out where there is none."""

import copy
import itertools
from typing import Any

import pytest
import torch
from gpu_modules import check_steps, spread
from test_limits_in_training import MODULES, eager_step, square
from torch import nn
from torch_modules import calls

import placewright
from placewright.importers.torch.results import default_loss

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="PyTorch finds no GPU here")
DEVICES = ["cuda:0", "cpu:0,cuda:0", "cuda:0/0,cuda:0/1"]
if torch.cuda.device_count() > 1:
    DEVICES.append("cuda:0,cuda:1")
OPTIONS: dict[str, Any] = {"evaluations": 50}


#: The tensor that "in place" computes with is no buffer and stays on the CPU: PyTorch itself cannot run it elsewhere.
HOMES = [
    *itertools.product(["branches", "shared weights", "returns what it gets"], ["cpu", "cuda:0"]),
    ("in place", "cpu"),
]


@pytest.mark.parametrize(("name", "home"), HOMES)
@pytest.mark.parametrize("devices", DEVICES)
def test_inference_is_that_of_the_module(name: str, devices: str, home: str) -> None:
    model, args, kwargs = calls()[name]()
    model = model.eval().to(home)
    args, kwargs = tuple(each.to(home) for each in args), {key: value.to(home) for key, value in kwargs.items()}
    plain, given = copy.deepcopy(model), copy.deepcopy(args)
    with placewright.compile(model, args, devices=devices, kwargs=kwargs, **OPTIONS) as compiled, torch.no_grad():
        for _ in range(5):
            torch.testing.assert_close(compiled(*args, **kwargs), plain(*given, **kwargs))
            torch.testing.assert_close(args, given)


@pytest.mark.parametrize("home", ["cpu", "cuda:0"])
@pytest.mark.parametrize("devices", DEVICES)
def test_training_with_a_planned_optimizer_is_that_of_the_module(devices: str, home: str) -> None:
    torch.manual_seed(0)
    # Without a bias before the normalization: its gradient is rounding alone, which Adam makes as large as any other.
    first = nn.Linear(64, 128, bias=False)
    model = nn.Sequential(first, nn.BatchNorm1d(128), nn.ReLU(), nn.Linear(128, 8)).to(home)
    x, plain = torch.randn(32, 64, device=home), copy.deepcopy(model)
    optimizer, other = (torch.optim.Adam(each.parameters(), lr=1e-2) for each in (model, plain))
    with placewright.compile(model, x, devices=devices, training=True, optimizer=optimizer, **OPTIONS) as step:
        for _ in range(5):
            other.zero_grad()
            loss = default_loss(plain(x))
            loss.backward()
            other.step()
            torch.testing.assert_close(step(x), loss.detach(), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(model.state_dict(), plain.state_dict(), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("devices", ["cuda:0", "cuda:0/0,cuda:0/1"])
@pytest.mark.parametrize("name", ["branches", "shared weights", "returns what it gets"])
def test_replays_of_a_recorded_step_are_steps_of_the_module(name: str, devices: str, training: bool) -> None:
    model, args, kwargs = calls()[name]()
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    model = model.train(training).cuda()
    args, kwargs = tuple(each.cuda() for each in args), {key: value.cuda() for key, value in kwargs.items()}
    plain = copy.deepcopy(model)
    pins = spread(model, args, kwargs, devices, training=training)
    how: dict[str, Any] = {"kwargs": kwargs, "training": training, "pins": pins, "cuda_graph": True}
    with placewright.compile(model, args, devices=devices, **how, **OPTIONS) as compiled:
        check_steps(compiled, model, plain, args, kwargs, training=training, rtol=1e-4, atol=1e-5)


class Doubles(nn.Module):
    """Overwrites its input."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.mul_(2) + 1


@pytest.mark.parametrize("home", ["cpu", "cuda:0"])
def test_a_recorded_step_overwrites_the_callers_input(home: str) -> None:
    x = torch.ones(3, device=home)
    with placewright.compile(Doubles(), x.clone(), devices="cuda:0", cuda_graph=True, **OPTIONS) as compiled:
        torch.testing.assert_close(compiled(x).cpu(), torch.full((3,), 3.0))
        torch.testing.assert_close(x.cpu(), torch.full((3,), 2.0))
        torch.testing.assert_close(compiled(x).cpu(), torch.full((3,), 5.0))


def test_dropout_of_a_recorded_step_differs_from_call_to_call() -> None:
    model, x = nn.Sequential(nn.Linear(64, 64), nn.Dropout(0.5)).cuda(), torch.ones(16, 64, device="cuda:0")
    with placewright.compile(model, x, devices="cuda:0", training=True, cuda_graph=True, **OPTIONS) as step:
        assert len({float(step(x)) for _ in range(4)}) > 1


@pytest.mark.parametrize("devices", ["cuda:0", "cuda:0/0,cuda:0/1"])
def test_a_recorded_run_is_timed_op_by_op(devices: str) -> None:
    model, x = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512)).cuda(), torch.randn(256, 512).cuda()
    with placewright.compile(model, x, devices=devices, cuda_graph=True, **OPTIONS) as compiled:
        run = compiled.compare(x, steps=8).facts
    assert run.measured_ns > 0
    assert all(op.measured_finish_ns >= op.measured_start_ns for op in run.ops)


def test_a_run_tells_times_and_memory_of_the_gpu() -> None:
    model, x = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512)), torch.randn(256, 512)
    with placewright.compile(model, x, devices="cuda:0", **OPTIONS) as compiled:
        run = compiled.compare(x, steps=5).facts
    assert run.measured_peak_bytes is not None
    assert run.measured_peak_bytes > x.nbytes
    assert all(op.measured_finish_ns >= op.measured_start_ns for op in run.ops)


def host_only(x: torch.Tensor) -> torch.Tensor:
    """An op without a kernel for GPUs."""
    return x * 3


torch.library.custom_op("placewright_tests::host_only", host_only, mutates_args=(), device_types="cpu").register_fake(
    torch.empty_like
)


class Mixed(nn.Module):
    """An op that only the CPU has, between two that the GPU has."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(torch.ops.placewright_tests.host_only(torch.tanh(x)))


def test_an_op_without_a_kernel_runs_on_the_cpu() -> None:
    x = torch.randn(8, 8)
    with pytest.warns(UserWarning, match="has no kernel on cuda:0 and runs on the CPU"):
        compiled = placewright.compile(Mixed(), x, devices="cuda:0", **OPTIONS)
    with compiled:
        torch.testing.assert_close(compiled(x), Mixed()(x))
        assert list(compiled.fallbacks) == ["host_only"]


def test_too_little_memory_names_device_and_op() -> None:
    model, x = nn.Sequential(nn.ReLU(), nn.Tanh()), torch.randn(4096, 4096)
    with placewright.compile(model, x, devices="cuda:0", **OPTIONS) as compiled:
        expected = compiled(x)
        torch.cuda.empty_cache()
        torch.cuda.set_per_process_memory_fraction(1e-6)
        try:
            with pytest.raises(placewright.DeviceError, match="cuda:0 has too little memory for the op"):
                compiled(x)
        finally:
            torch.cuda.set_per_process_memory_fraction(1.0)
        torch.testing.assert_close(compiled(x), expected)


def peaks(step: Any, model: nn.Module, x: torch.Tensor) -> tuple[int, int]:
    """Return the peak bytes that a step requests and that the allocator gives it, parameters, buffers and argument
    included; gradients are dropped before the step."""
    model.zero_grad()
    torch.cuda.synchronize()
    held = sum(tensor.nbytes for tensor in (*model.parameters(), *model.buffers(), x))
    before = torch.cuda.memory_stats()
    torch.cuda.reset_peak_memory_stats()
    step(x)
    torch.cuda.synchronize()
    after, names = torch.cuda.memory_stats(), ("requested_bytes.all", "allocated_bytes.all")
    requested, allocated = (held + after[f"{name}.peak"] - before[f"{name}.current"] for name in names)
    return requested, allocated


@pytest.mark.parametrize("name", ["drawn 1", "residual"])
def test_a_step_that_runs_ops_again_is_the_modules_step(name: str) -> None:
    torch.manual_seed(0)
    build, made = MODULES[name]
    model, x = build().cuda(), made(0).cuda()
    options: dict[str, Any] = {"devices": "cuda:0", "training": True, "loss": square, "evaluations": 20}
    with placewright.compile(copy.deepcopy(model), x, **options) as whole:
        peak = max(whole.plan.peak_bytes)
    held = sum(tensor.nbytes for tensor in (*model.parameters(), *model.buffers(), x))
    ours, eager, limit = copy.deepcopy(model), copy.deepcopy(model), int(held + 0.6 * (peak - held))
    with (
        torch.backends.cudnn.flags(deterministic=True),
        placewright.compile(ours, x, **options, memory_limit=limit, keep=["move:*"]) as planned,
    ):
        assert planned.plan.reruns
        for number in range(2):
            torch.manual_seed(number)
            found, drawn = planned(x), torch.rand(1, device="cuda:0")
            torch.manual_seed(number)
            assert torch.equal(found, eager_step(eager, x))
            assert torch.equal(drawn, torch.rand(1, device="cuda:0"))
        for (key, wanted), got in zip(
            [*eager.named_parameters(), *eager.named_buffers()], [*ours.parameters(), *ours.buffers()], strict=True
        ):
            assert torch.equal(wanted, got), key
            if wanted.grad is not None:
                assert torch.equal(wanted.grad, got.grad), key
        if planned.plan.status != "infeasible":
            assert peaks(planned, ours, x)[0] <= 1.01 * limit


def test_the_allocator_gives_a_step_no_more_than_its_limit() -> None:
    layers = [nn.Sequential(nn.Linear(512, 512), nn.Tanh(), nn.Dropout(0.3)) for _ in range(8)]
    # Results have 32 MiB, so that the allocator gives what is asked for.
    model, x = nn.Sequential(*layers).cuda(), torch.randn(16384, 512, device="cuda:0")
    plain = copy.deepcopy(model)
    for _ in range(3):
        eager_step(plain, x)
    eager = peaks(lambda x: eager_step(plain, x), plain, x)[1]
    step = placewright.fit(model, x, int(0.6 * eager), loss=square)
    with step:
        assert step.plan.reruns
        for _ in range(3):
            step(x)
        assert peaks(step, model, x)[1] <= 0.6 * eager
