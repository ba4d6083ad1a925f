"""Steps recorded as CUDA graphs, on stand-ins for GPUs that do what was recorded by launching it again."""

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from gpu_modules import brought_to, check_steps, spread, tower
from stand_in_gpu import StandIns
from torch_modules import calls

import placewright
from placewright.support.torch_threads import torch_threads

OPTIONS: dict[str, Any] = {"evaluations": 20}
STREAMS = ["cuda:0", "cuda:0/0,cuda:0/1"]


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIns]:
    found = StandIns(2)
    found.install(monkeypatch.setattr)
    for name, few in (("profile._MAX_PASSES", 1), ("profile._MIN_PASSES", 1), ("profile._PASSES_NS", 0)):
        monkeypatch.setattr(f"placewright.execution.pytorch.{name}", few)
    monkeypatch.setattr("placewright.execution.pytorch.link_times._CHAIN", 2)
    with torch_threads(1):
        yield found


@pytest.mark.parametrize("devices", STREAMS)
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", ["branches", "shared weights", "returns what it gets"])
def test_replays_are_steps_of_the_module(gpus: StandIns, name: str, training: bool, devices: str) -> None:
    model, args, kwargs = calls()[name]()
    model.train(training)
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    plain = copy.deepcopy(model)
    there = gpus.devices[0]
    brought_to(there, model)
    pins = spread(model, args, kwargs, devices, training=training)
    with placewright.compile(
        model, args, devices=devices, kwargs=kwargs, training=training, cuda_graph=True, pins=pins, **OPTIONS
    ) as compiled:
        assert compiled.plan.machine.launch == "graphs"
        check_steps(compiled, model, plain, args, kwargs, training=training)


def test_what_a_call_returned_stays_as_it_is(gpus: StandIns) -> None:
    model, x = tower()
    brought_to(gpus.devices[0], model)
    with placewright.compile(model, x, devices="cuda:0", cuda_graph=True, **OPTIONS) as compiled:
        first = compiled(x)
        before = first.clone()
        compiled(2 * x)
        torch.testing.assert_close(first, before)


def test_an_input_that_the_module_overwrites_is_the_callers(gpus: StandIns) -> None:
    """Tested on a real GPU, too, by test_cuda_on_gpu."""

    class Doubles(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x.mul_(2)
            return x + 1

    x = torch.ones(3)
    with placewright.compile(Doubles(), x.clone(), devices="cuda:0", cuda_graph=True, **OPTIONS) as compiled:
        torch.testing.assert_close(compiled(x), torch.full((3,), 3.0))
        torch.testing.assert_close(x, torch.full((3,), 2.0))
        torch.testing.assert_close(compiled(x), torch.full((3,), 5.0))


def test_a_parameter_that_lies_elsewhere_now_is_read_there(gpus: StandIns) -> None:
    model, x = tower()
    plain, there = copy.deepcopy(model), gpus.devices[0]
    brought_to(there, model)
    with placewright.compile(model, x, devices="cuda:0", cuda_graph=True, **OPTIONS) as compiled, torch.no_grad():
        torch.testing.assert_close(compiled(x), plain(x))
        plain.second.bias = torch.nn.Parameter(torch.ones(4))
        moved = there.brought(torch.ones(4))
        there.finish(there.recorded(there.default))
        model.second.bias = torch.nn.Parameter(moved)
        torch.testing.assert_close(compiled(x), plain(x))


def test_a_parameter_with_other_strides_is_captured_anew(gpus: StandIns) -> None:
    model, x = tower()
    plain = copy.deepcopy(model)
    brought_to(gpus.devices[0], model)
    with placewright.compile(model, x, devices="cuda:0", cuda_graph=True, **OPTIONS) as compiled, torch.no_grad():
        compiled(x)
        for each in (model, plain):
            each.first.weight.data = each.first.weight.data.t()
        torch.testing.assert_close(compiled(x), plain(x))


def test_what_was_compiled_in_inference_mode_runs_outside_of_it(gpus: StandIns) -> None:
    model, x = tower()
    plain = copy.deepcopy(model)
    brought_to(gpus.devices[0], model)
    with torch.inference_mode():
        compiled = placewright.compile(model, x, devices="cuda:0", cuda_graph=True, **OPTIONS)
    with compiled:
        torch.testing.assert_close(compiled(x), plain(x).detach())


def test_a_run_is_compared_and_timed(gpus: StandIns) -> None:
    model, x = tower()
    brought_to(gpus.devices[0], model)
    with placewright.compile(model, x, devices=STREAMS[1], cuda_graph=True, **OPTIONS) as compiled:
        facts = compiled.compare(x, steps=4).facts
        assert facts.measured_ns > 0
        assert all(op.measured_finish_ns >= op.measured_start_ns >= 0 for op in facts.ops)


def test_times_of_recorded_ops_are_kept_apart(gpus: StandIns, tmp_path: Path) -> None:
    """Ops of a recorded step do not wait for their launches."""
    model, x = tower()
    brought_to(gpus.devices[0], model)
    first = placewright.profile(model, x, devices="cuda:0", folder=tmp_path, cuda_graph=True).facts
    launched = placewright.profile(model, x, devices="cuda:0", folder=tmp_path).facts
    again = placewright.profile(model, x, devices="cuda:0", folder=tmp_path, cuda_graph=True).facts
    assert first.num_timed == launched.num_timed > 0
    assert again.num_timed == 0
    named = {"devices-recorded.toml", "devices.toml", "Tower-inference-recorded.csv", "Tower-inference.csv"}
    assert named < {path.name for path in tmp_path.iterdir()}


def refused(gpus: StandIns, match: str, *, there: bool = True, **how: Any) -> None:
    model, x = tower()
    if there:
        brought_to(gpus.devices[0], model)
    given: dict[str, Any] = {"devices": "cuda:0", **OPTIONS, **how}
    if given.pop("with_optimizer", False):
        given["optimizer"] = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(placewright.InputError, match=match):
        placewright.compile(model, x, cuda_graph=True, **given)


@pytest.mark.parametrize("devices", ["cpu:0", "cpu:0,cuda:0", "cuda:0,cuda:1"])
def test_only_streams_of_one_gpu_record(gpus: StandIns, devices: str) -> None:
    refused(gpus, "^a CUDA graph records the work of one GPU, and ", devices=devices)


def test_a_module_elsewhere_is_named(gpus: StandIns) -> None:
    refused(gpus, r"^first.weight is not on cuda:0, where a CUDA graph reads it; move the module", there=False)


def test_the_optimizers_step_is_not_recorded(gpus: StandIns) -> None:
    refused(gpus, "^the optimizer's step is not part of a CUDA graph", training=True, with_optimizer=True)


def test_profiles_refuse_the_same(gpus: StandIns, tmp_path: Path) -> None:
    model, x = tower()
    how: dict[str, Any] = {"devices": "cuda:0", "folder": tmp_path, "training": True, "cuda_graph": True}
    with pytest.raises(placewright.InputError, match=r"^first.weight is not on cuda:0"):
        placewright.profile(model, x, **how)


def test_the_backend_of_torch_compile_does_not_record(gpus: StandIns) -> None:
    torch.compiler.reset()
    model, x = tower()
    compiled = torch.compile(model, backend="placewright", options={"devices": "cuda:0", "cuda_graph": True})
    with pytest.raises(Exception, match=r"the backend launches ops one by one"):
        compiled(x)


def test_an_op_without_a_kernel_is_not_recorded(gpus: StandIns) -> None:
    gpus.devices[0].lacks.add("aten::cumsum")
    with pytest.warns(UserWarning, match="has no kernel"):
        refused(gpus, "^the op 'cumsum' has no kernel on the GPU, and a CUDA graph")


def test_an_op_that_cannot_be_recorded_is_named(gpus: StandIns, monkeypatch: pytest.MonkeyPatch) -> None:
    device, recording = gpus.devices[0], type(gpus.devices[0]).recording

    def refusing(self: Any, launch: Any) -> Any:
        device.unrecordable.add("aten::cumsum")
        try:
            return recording(self, launch)
        finally:
            device.unrecordable.clear()

    monkeypatch.setattr(type(device), "recording", refusing)
    refused(gpus, "^a step cannot be recorded as a CUDA graph: CUDA error: operation not permitted.*by the op 'cumsum'")


def test_calibration_is_for_steps_that_are_launched(gpus: StandIns) -> None:
    model, x = tower()
    brought_to(gpus.devices[0], model)
    with (
        placewright.compile(model, x, devices="cuda:0", cuda_graph=True, **OPTIONS) as compiled,
        pytest.raises(placewright.InputError, match=r"^calibrate is for steps that are launched op by op"),
    ):
        compiled.calibrate(x)
