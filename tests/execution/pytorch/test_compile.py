"""`placewright.compile`: what runs on several devices computes what the module computes, bit by bit."""

import copy
import gc
import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils import _pytree as pytree
from torch_modules import QUICK, Branches, SharedWeights, calls

import placewright
from placewright.importers.torch.results import default_loss

pytestmark = pytest.mark.usefixtures("one_thread_for_an_op")


def assert_same(found: Any, expected: Any) -> None:
    leaves, structure = pytree.tree_flatten(found)
    wanted, wanted_structure = pytree.tree_flatten(expected)
    assert structure == wanted_structure
    for leaf, want in zip(leaves, wanted, strict=True):
        if isinstance(want, torch.Tensor):
            assert leaf.dtype == want.dtype
            assert torch.equal(leaf, want)
        else:
            assert leaf == want


@pytest.mark.parametrize("name", calls())
def test_an_inference_is_that_of_the_module(name: str) -> None:
    model, args, kwargs = calls()[name]()
    reference = copy.deepcopy(model).eval()
    with placewright.compile(model, args, kwargs=kwargs, **QUICK) as compiled:
        for seed in range(2):
            given, expected_args = copy.deepcopy(args), copy.deepcopy(args)
            torch.manual_seed(seed)
            with torch.no_grad():
                expected = reference(*expected_args, **kwargs)
            torch.manual_seed(seed)
            assert_same(compiled(*given, **kwargs), expected)
            assert_same(given, expected_args)
    assert_same(dict(model.named_buffers()), dict(reference.named_buffers()))
    assert model.training, "the mode of the module is its owner's"


@pytest.mark.parametrize("name", calls())
def test_a_training_step_adds_the_gradients_of_the_module(name: str) -> None:
    model, args, kwargs = calls()[name]()
    reference = copy.deepcopy(model).train()
    loss = default_loss
    with placewright.compile(model, args, kwargs=kwargs, training=True, loss=loss, **QUICK) as compiled:
        for seed in range(3):
            given, expected_args = copy.deepcopy(args), copy.deepcopy(args)
            torch.manual_seed(seed)
            expected = loss(reference(*expected_args, **kwargs))
            expected.backward()
            torch.manual_seed(seed)
            assert_same(compiled(*given, **kwargs), expected.detach())
            for parameter, want in zip(model.parameters(), reference.parameters(), strict=True):
                assert (parameter.grad is None) == (want.grad is None)
                if want.grad is not None:
                    assert_same(parameter.grad, want.grad)
                    assert parameter.grad.stride() == want.grad.stride()
    assert_same(dict(model.named_buffers()), dict(reference.named_buffers()))


def test_other_shapes_are_planned_when_they_come() -> None:
    model, args, _ = calls()["branches"]()
    reference = copy.deepcopy(model).eval()
    with placewright.compile(model, args, **QUICK) as compiled, torch.no_grad():
        for rows in (5, 2, 7, 2, 5):
            x = torch.randn(rows, 16)
            assert_same(compiled(x), reference(x))
        assert compiled.plan.num_graph_ops > 10


def test_what_an_op_raises_names_the_op_and_leaves_a_module_that_works() -> None:
    model = SharedWeights()
    tokens, scale = torch.randint(0, 12, (3, 4)), torch.rand(8)
    with placewright.compile(model, (tokens,), kwargs={"scale": scale}, **QUICK) as compiled:
        with pytest.raises(IndexError) as raised:
            compiled(tokens + 100, scale=scale)
        assert "raised by the op 'embedding' on the device cpu:" in raised.value.__notes__[0]
        with torch.no_grad():
            assert_same(compiled(tokens, scale=scale), copy.deepcopy(model).eval()(tokens, scale=scale))


class Slow(nn.Module):
    """Takes some milliseconds, in many ops."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x
        for _ in range(100):
            x, y = torch.tanh(x @ y) + 1, torch.tanh(y @ x)
        return x + y


def test_ctrl_c_ends_a_step_and_leaves_a_module_that_works() -> None:
    x = torch.full((64, 64), 0.1)
    with placewright.compile(Slow(), (x,), **QUICK) as compiled:
        expected = compiled(x)
        for delay in (0.0, 0.001, 0.005):
            timer = threading.Timer(delay, os.kill, (os.getpid(), signal.SIGINT))
            with pytest.raises(KeyboardInterrupt):  # noqa: PT012, since the signal may come while starting
                timer.start()
                while True:
                    compiled(x)
            timer.join()
            assert_same(compiled(x), expected)


def test_threads_end_with_what_was_compiled() -> None:
    model, args, _ = calls()["branches"]()
    before = threading.active_count()
    compiled = placewright.compile(model, args, **QUICK)
    assert threading.active_count() == before + 2
    compiled.close()
    assert threading.active_count() == before
    compiled(*args)
    assert threading.active_count() == before + 2
    del compiled
    gc.collect()
    assert threading.active_count() == before


@pytest.fixture
def frequent_switches() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("frequent_switches")
@pytest.mark.parametrize("seed", range(3))
def test_three_threads_may_call_at_once(seed: int) -> None:
    # The module is in training mode: each call sets evaluation mode, which must last for the whole call.
    torch.manual_seed(seed)
    model, args, _ = calls()["branches"]()
    reference = copy.deepcopy(model).eval()
    with placewright.compile(model, args, **QUICK) as compiled:
        found: list[tuple[torch.Tensor, Any]] = []

        def call(number: int) -> None:
            for step in range(20):
                x = torch.full((5, 16), float(number * 20 + step))
                found.append((x, compiled(x)))

        threads = [threading.Thread(target=call, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(found) == 60
    assert model.training
    with torch.no_grad():
        for x, result in found:
            assert_same(result, reference(x))


def test_measured_times_are_kept_in_a_file_and_read_again(tmp_path: Path) -> None:
    model, args, _ = calls()["branches"]()
    times = tmp_path / "times.csv"
    placewright.compile(model, args, measured=times, **QUICK).close()
    rows = times.read_text().splitlines()
    assert rows[0] == "op,device,time_ns,workspace_bytes"
    assert len(rows) > 10
    times.write_text("op,device,time_ns\n*,*,1000\n")
    compiled = placewright.compile(model, args, measured=times, **QUICK)
    compiled.close()
    assert {op.finish_ns - op.start_ns for op in compiled.plan.ops if op.kind != "input"} == {1000}


@pytest.mark.parametrize(
    ("devices", "sentence"),
    [
        ("tpu:0", "device 'tpu:0' cannot run a plan; cpu:0, cpu:1, cuda:0 and so on can"),
        ("cpu:0,cpu:0", "devices names cpu:0, cpu:0; at least one is needed, each named once"),
        ([], "devices names none; at least one is needed, each named once"),
        ([f"cpu:{n}" for n in range(999)], "999 CPU devices need a core each, and this process may use"),
    ],
)
def test_devices_that_are_not_here_are_named(devices: Any, sentence: str) -> None:
    with pytest.raises(placewright.InputError, match=sentence):
        placewright.compile(Branches(), torch.zeros(2, 16), devices=devices)


def test_a_loss_or_an_optimizer_without_training_is_refused() -> None:
    with pytest.raises(placewright.InputError, match="are for training steps; training=True makes one"):
        placewright.compile(Branches(), torch.zeros(2, 16), devices="cpu:0,cpu:1", loss=default_loss)


@pytest.mark.parametrize("dynamic", [None, pytest.param(True, marks=pytest.mark.long)])
def test_the_backend_of_torch_compile_plans_anew_for_sizes_that_are_open(dynamic: bool | None) -> None:
    """PyTorch by default leaves a size open when it comes with a second value."""
    torch.compiler.reset()
    model, _, _ = calls()["branches"]()
    reference = copy.deepcopy(model).train()
    compiled = torch.compile(
        model, backend="placewright", options={"devices": "cpu:0,cpu:1", "evaluations": 20}, dynamic=dynamic
    )  # fmt: skip
    for rows in (3, 4, 5, 4):
        for each, call in ((model, compiled), (reference, reference)):
            each.zero_grad()
            torch.manual_seed(rows)
            default_loss(call(torch.arange(16.0 * rows).view(rows, 16))).backward()
        for parameter, want in zip(model.parameters(), reference.parameters(), strict=True):
            assert_same(parameter.grad, want.grad)


def test_the_backend_of_torch_compile_needs_devices() -> None:
    with pytest.raises(Exception, match="the backend needs devices"):
        torch.compile(Branches(), backend="placewright")(torch.zeros(2, 16))


@pytest.mark.parametrize("training", [False, True])
def test_comparing_leaves_the_module_as_it_was(training: bool) -> None:
    model, args, _ = calls()["branches"]()
    with placewright.compile(model, args, devices="cpu:0,cpu:1", training=training, evaluations=20) as compiled:
        before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        found = compiled.compare(*args, steps=2).facts
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())
    assert found.steps == 2
    assert -1 <= found.start_correlation <= 1
    assert min(found.measured_ns, found.one_device_measured_ns, found.eager_ns, found.planned_ns) > 0
    assert found.planned_speedup == found.one_device_planned_ns / found.planned_ns


@pytest.mark.parametrize("solver", ["auto", "list"])
def test_a_run_and_its_plan_are_compared_with_the_same_time_of_one_device(solver: str) -> None:
    model, args, _ = calls()["branches"]()
    with placewright.compile(model, args, devices="cpu:0,cpu:1", evaluations=20, solver=solver) as compiled:
        found = compiled.compare(*args, steps=1).facts
    assert compiled.plan.one_device is not None
    assert compiled.plan.one_device.metrics.step_time_ns == found.one_device_planned_ns
    assert compiled.plan.speedup == found.planned_speedup
    assert solver == "list" or found.planned_speedup >= 1
