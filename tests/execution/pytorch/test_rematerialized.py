"""Training steps that run ops again: loss, gradients, buffers and draws are the module's, and memory is as planned."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

import placewright
from placewright.api import functions
from placewright.execution.pytorch import profile as profiling
from placewright.execution.pytorch.program import make_program
from placewright.plans.assemble import assemble_plan
from placewright.rematerialization import solve
from placewright.rematerialization.reruns import Rerun
from placewright.support.errors import InputError

pytestmark = pytest.mark.heavy


class Residual(nn.Module):
    """Convolutions with batch norm and shortcuts, as deep as asked for."""

    def __init__(self, blocks: int = 4) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Conv2d(8, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU())
            for _ in range(blocks)
        )
        self.head = nn.Linear(8, 5)

    def forward(self, x: Any) -> Any:
        x = self.stem(x)
        for block in self.blocks:
            x = x + block(x)
        return self.head(x.mean((2, 3)))


class Dropping(nn.Module):
    """Dropout between layers: what is made again must drop the same."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(6))

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = nn.functional.dropout(torch.tanh(layer(x)), 0.3, self.training)
        return x * torch.rand_like(x)


class Attending(nn.Module):
    """Transformer layers whose heads are views."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.ModuleDict({"qkv": nn.Linear(32, 96), "norm": nn.LayerNorm(32), "out": nn.Linear(32, 32)})
            for _ in range(3)
        )

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            q, k, v = layer["qkv"](layer["norm"](x)).chunk(3, dim=-1)
            heads = [each.unflatten(-1, (4, 8)).transpose(1, 2) for each in (q, k, v)]
            scores = (heads[0] @ heads[1].transpose(-1, -2)).softmax(-1)
            x = x + layer["out"]((torch.dropout(scores, 0.1, True) @ heads[2]).transpose(1, 2).flatten(2))
        return x


class Shared(nn.Module):
    """One layer used over and over, writing a buffer each time."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(48, 48)
        self.norm = nn.BatchNorm1d(48)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Any) -> Any:
        for _ in range(5):
            self.calls += 1
            x = torch.sin(self.norm(self.layer(x))) * self.calls.clone()
        return x


MODULES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "residual": (Residual, (4, 3, 24, 24)),
    "dropping": (Dropping, (512, 64)),
    "attending": (Attending, (8, 40, 32)),
    "shared": (Shared, (512, 48)),
}


def square(out: Any) -> Any:
    return (out**2).mean()


def step_of(model: nn.Module, x: Any) -> Any:
    loss = square(model(x))
    loss.backward()
    return loss.detach()


@pytest.mark.parametrize("name", MODULES)
def test_a_step_that_runs_ops_again_is_the_modules_step(name: str) -> None:
    torch.manual_seed(0)
    build, shape = MODULES[name]
    model, x = build(), torch.randn(shape)
    with placewright.compile(copy.deepcopy(model), (x,), devices="cpu:0", training=True, loss=square) as whole:
        peak = max(whole.plan.peak_bytes)
    held = sum(tensor.nbytes for tensor in (*model.parameters(), *model.buffers(), x))
    for share in (0.8, 0.6):
        ours, eager = copy.deepcopy(model), copy.deepcopy(model)
        limit = int(held + share * (peak - held))
        with placewright.compile(
            ours, (x,), devices="cpu:0", training=True, loss=square, memory_limit=limit, evaluations=20
        ) as planned:
            assert planned.plan.reruns
            for number in range(2):
                torch.manual_seed(number)
                found, drawn = planned(x), torch.rand(1)
                torch.manual_seed(number)
                assert torch.equal(found, step_of(eager, x))
                assert torch.equal(drawn, torch.rand(1))
            named = [*eager.named_parameters(), *eager.named_buffers()]
            for (key, wanted), got in zip(named, [*ours.parameters(), *ours.buffers()], strict=True):
                assert torch.equal(wanted, got), key
                if wanted.grad is not None:
                    assert torch.equal(wanted.grad, got.grad), key
            assert max(planned.plan.peak_bytes) <= limit
            assert len(planned._made) == 2, "the second step finds gradients, for which its plan leaves room"
            for made in planned._made.values():
                step = made.module.step
                assert step.peak_bytes(made.module.parameters.now(), [x]) <= limit * 1.01


@pytest.mark.parametrize(("name", "limit"), [("residual", 610_000), ("dropping", 810_000)])
def test_two_devices_run_ops_again_and_compute_what_the_module_does(
    name: str, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(profiling, "_PASSES_NS", 0)
    monkeypatch.setattr(profiling, "_MIN_PASSES", 1)
    torch.manual_seed(0)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # As many as a device has: with others a convolution adds up in another order.
    build, shape = MODULES[name]
    model, x = build(), torch.randn(shape)
    ours, eager = copy.deepcopy(model), copy.deepcopy(model)
    options: dict[str, Any] = {"devices": "cpu:0,cpu:1", "training": True, "loss": square, "memory_limit": limit}
    try:
        with placewright.compile(ours, (x,), **options, solver="contiguous-split") as planned:
            assert planned.plan.reruns
            assert set(planned.plan.device_of.values()) == {0, 1}
            assert max(planned.plan.peak_bytes) <= limit
            for number in range(2):
                torch.manual_seed(number)
                found, drawn = planned(x), torch.rand(1)
                torch.manual_seed(number)
                assert torch.equal(found, step_of(eager, x))
                assert torch.equal(drawn, torch.rand(1))
            plan = planned.plan
    finally:
        torch.set_num_threads(threads)
    again = plan.reruns[0]
    elsewhere = (replace(op, device=1 - op.device) if op.name == again.name else op for op in plan.ops)
    options |= {"memory_limit": None, "plan": replace(plan, ops=tuple(elsewhere))}
    with pytest.raises(InputError, match=f"'{again.name}' does not run on the device of '{again.op}'"):
        placewright.compile(model, (x,), **options)
    named = [*eager.named_parameters(), *eager.named_buffers()]
    for (key, wanted), got in zip(named, [*ours.parameters(), *ours.buffers()], strict=True):
        assert torch.equal(wanted, got), key
        assert wanted.grad is None or torch.equal(wanted.grad, got.grad), key


def test_an_optimizer_that_is_planned_steps_as_in_eager() -> None:
    torch.manual_seed(0)
    model, x = Residual(), torch.randn(4, 3, 24, 24)
    ours, eager = copy.deepcopy(model), copy.deepcopy(model)
    own, theirs = torch.optim.AdamW(ours.parameters()), torch.optim.AdamW(eager.parameters())
    with placewright.compile(
        ours, (x,), devices="cpu:0", training=True, loss=square, optimizer=own, memory_limit="600KB"
    ) as planned:
        assert planned.plan.reruns
        for _ in range(3):
            assert torch.equal(planned(x), step_of(eager, x))
            theirs.step()
            theirs.zero_grad()
    for wanted, got in zip(eager.parameters(), ours.parameters(), strict=True):
        assert torch.equal(wanted, got)


def test_a_plan_with_reruns_is_saved_and_run_again(tmp_path: Any) -> None:
    torch.manual_seed(0)
    model, x = Residual(), torch.randn(4, 3, 24, 24)
    options: dict[str, Any] = {"devices": "cpu:0", "training": True, "loss": square}
    with placewright.compile(copy.deepcopy(model), (x,), **options, memory_limit="600KB") as planned:
        assert planned.plan.reruns
        placewright.save(planned.plan, tmp_path / "plan.json")
    read = placewright.load(tmp_path / "plan.json")
    ours = copy.deepcopy(model)
    with placewright.compile(ours, (x,), **options, plan=read) as again:
        assert torch.equal(again(x), step_of(model, x))
    with pytest.raises(InputError, match="is not a plan for 'Residual'"):
        placewright.compile(Residual(3), (x,), **options, plan=read)


class Counting(nn.Module):
    """What is made of a buffer that forward overwrites afterwards, and backward reads."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)
        self.register_buffer("factor", torch.ones(8))

    def forward(self, x: Any) -> Any:
        twice = self.factor * 2
        y = self.layer(x) * twice
        with torch.no_grad():
            self.factor.add_(1)
        return y.tanh()


def test_a_plan_whose_rerun_would_read_something_else_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(64, 8)
    options: dict[str, Any] = {"training": True, "loss": square}
    graph = make_program(Counting(), (x,), {}, **options, sums_in_place=True, inputs_stay=True).graph
    # Such a file fits its graph by its fingerprint, so that only what the runs read can tell.
    rerun = Rerun(name="mul@2", op="mul", before="tanh_backward", tensors=("mul:0",))

    def with_reruns(problem: Any, result: Any, *, again: Any = None, **rest: Any) -> Any:
        if again is None:
            return assemble_plan(problem, result, **rest)
        return replace(assemble_plan(again.problem, again.result, **rest), reruns=again.reruns)

    with monkeypatch.context() as patched:
        patched.setattr(solve, "reruns_of", lambda *_: iter([rerun]))
        patched.setattr(functions, "assemble_plan", with_reruns)
        plan = placewright.plan(graph, "cpu", memory_limit=100)
    assert plan.reruns == (rerun,)
    with pytest.raises(InputError, match="cannot be run as it is: op 'mul@2' does not read what 'mul' reads"):
        placewright.compile(Counting(), x, devices="cpu:0", plan=plan, **options)
