"""CUDA devices and their streams, on a stand-in that finds errors which real devices would only show now and then."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from gpu_modules import brought_to, spread, tower
from stand_in_gpu import Device as StandIn
from stand_in_gpu import StandIns
from torch import nn
from torch_modules import calls

import placewright
from placewright.execution import devices as host
from placewright.execution.devices import available_cores
from placewright.execution.pytorch import machine
from placewright.execution.pytorch.handing import handing
from placewright.execution.pytorch.places import Place, on_stream
from placewright.execution.pytorch.step import TorchStep
from placewright.importers.torch.results import default_loss
from placewright.support.torch_threads import torch_threads


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> StandIns:
    """Two stand-ins for GPUs, with locks that pass on, where threads meet, what is known to have ended."""
    found = StandIns(2)
    found.install(monkeypatch.setattr)
    return found


#: Every way to combine hosts, devices and streams.
DEVICES = (
    *("cuda:0", "cpu:0,cuda:0", "cuda:0,cpu:0", "cuda:0/0,cuda:0/1", "cuda:0,cuda:1"),
    "cpu:0,cuda:0/0,cuda:0/1,cuda:1",
)
OPTIONS: dict[str, Any] = {"evaluations": 20}


@pytest.fixture(autouse=True)
def _one_core(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The module itself computes with as many threads as every device here does, and so to the same last bits."""
    cores = available_cores()[:1]
    for module in (host, machine):
        monkeypatch.setattr(module, "available_cores", lambda: cores)
    with torch_threads(1):
        yield


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time ops and links a few times on small tensors: the stand-in keeps all memory that it ever allocated."""
    monkeypatch.setattr("placewright.execution.pytorch.profile._PASSES_NS", 0)
    monkeypatch.setattr("placewright.execution.pytorch.profile._MIN_PASSES", 1)
    monkeypatch.setattr("placewright.execution.pytorch.link_times._LARGE", 2**11)


def same(found: Any, expected: Any) -> None:
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


def cases() -> Iterator[Any]:
    """Every module on all sorts of devices together, and one of them on each combination; the rest takes long."""
    for devices in DEVICES:
        for name in calls():
            for training in (False, True):
                everyday = (name == "branches" and training) or (devices == DEVICES[-1] and name != "branches")
                marks = () if everyday else pytest.mark.long
                yield pytest.param(
                    devices,
                    name,
                    training,
                    marks=marks,
                    id=f"{name}, {'training' if training else 'inference'}, {devices}",
                )


@pytest.mark.parametrize(("devices", "name", "training"), list(cases()))
def test_results_are_those_of_the_module(gpus: StandIns, devices: str, name: str, training: bool) -> None:
    model, args, kwargs = calls()[name]()
    model.train(training)
    plain, given = copy.deepcopy(model), copy.deepcopy(args)
    pins = spread(model, args, kwargs, devices, training=training)
    with placewright.compile(
        model, args, devices=devices, kwargs=kwargs, training=training, pins=pins, **OPTIONS
    ) as compiled:
        for _ in range(2):
            torch.manual_seed(7)
            found = compiled(*args, **kwargs)
            torch.manual_seed(7)
            with torch.set_grad_enabled(training):
                expected = plain(*given, **kwargs)
            if training:
                expected = default_loss(expected)
                expected.backward()
                expected = expected.detach()
            same(found, expected)
            same(args, given)
            same(dict(model.named_buffers()), dict(plain.named_buffers()))
            for own, other in zip(model.parameters(), plain.parameters(), strict=True):
                same(own.grad, other.grad)
    assert gpus.recorder.not_kept() == []
    assert {entry[0] for entry in gpus.recorder.log} >= {"op", "record", "wait", "finish"}


def test_every_device_runs_its_ops_in_the_order_of_the_plan(gpus: StandIns) -> None:
    """The stand-in's clock ticks with every launch, so that start times are the order of launches."""
    model, args, kwargs = calls()["branches"]()
    devices = "cuda:0/0,cuda:0/1"
    pins = spread(model, args, kwargs, devices)
    with placewright.compile(model, args, devices=devices, pins=pins, **OPTIONS) as compiled:
        run = compiled.compare(*args, steps=4).facts
        for device in range(2):
            planned = [op.name for op in compiled.plan.ops if op.device == device]
            ran = sorted((op for op in run.ops if op.device == device), key=lambda op: op.measured_start_ns)
            assert [op.name for op in ran] == planned
            assert all(op.measured_finish_ns > op.measured_start_ns for op in ran)


def check_one_step(gpus: StandIns, compiled: Any, x: torch.Tensor, expected: torch.Tensor) -> None:
    same(compiled(x), expected)
    assert not gpus.recorder.not_kept(), "the allocator was not told"


@pytest.mark.parametrize(
    ("forgotten", "objection"),
    [
        ("wait", "reads what .* may still write|overwrites what|not equal"),
        ("finish", "may still write|not equal"),
        ("keep", "allocator was not told"),
    ],
)
def test_the_stand_in_objects_to_what_is_forgotten(
    gpus: StandIns, monkeypatch: pytest.MonkeyPatch, forgotten: str, objection: str
) -> None:
    """The tests above would fail without a wait for an event, without the host's wait for a copy, and without telling
    the allocator of a stream."""
    model, x = tower()
    expected = copy.deepcopy(model)(x).detach()
    devices = "cuda:0,cuda:1,cpu:0"
    pins = spread(model, (x,), {}, devices)
    with placewright.compile(model, x, devices=devices, pins=pins, **OPTIONS) as compiled:
        compiled(x)
        monkeypatch.setattr(StandIn, forgotten, lambda *_: None)
        with pytest.raises(AssertionError, match=f"(?is){objection}"):
            check_one_step(gpus, compiled, x, expected)


def test_parameters_that_change_between_steps_are_read_anew(gpus: StandIns) -> None:
    model, x = tower()
    plain = copy.deepcopy(model)
    with placewright.compile(model, x, devices="cuda:0,cuda:1", **OPTIONS) as compiled, torch.no_grad():
        same(compiled(x), plain(x))
        copies = sum(entry[0] == "copy" for entry in gpus.recorder.log)
        same(compiled(x), plain(x))
        again = sum(entry[0] == "copy" for entry in gpus.recorder.log) - copies
        for each in (model, plain):
            each.first.weight.mul_(2)
            each.second.bias = nn.Parameter(torch.ones(4))
        same(compiled(x), plain(x))
        assert sum(entry[0] == "copy" for entry in gpus.recorder.log) - copies - again > again
        model.second.bias.data.add_(1)
        plain.second.bias.data.add_(1)
        compiled.synchronize()
        same(compiled(x), plain(x))


@pytest.mark.parametrize("devices", ["cuda:0", "cpu:0,cuda:0/0,cuda:0/1"])
def test_an_optimizer_steps_the_module_and_its_copies_follow(gpus: StandIns, devices: str) -> None:
    model, x = tower()
    plain = copy.deepcopy(model)
    optimizer, other = (torch.optim.Adam(each.parameters(), lr=0.1) for each in (model, plain))
    with placewright.compile(
        model, x, devices=devices, training=True, optimizer=optimizer, objective="peak-memory", **OPTIONS
    ) as step:
        for _ in range(3):
            other.zero_grad()
            loss = default_loss(plain(x))
            loss.backward()
            other.step()
            same(step(x), loss.detach())
            same(model.state_dict(), plain.state_dict())
    same(optimizer.state_dict()["state"], other.state_dict()["state"])


def test_an_op_without_a_kernel_runs_on_the_cpu_and_is_named(gpus: StandIns) -> None:
    gpus.devices[0].lacks.add("aten::cumsum")
    model, x = tower()
    plain = copy.deepcopy(model)
    with pytest.warns(UserWarning, match="the op 'cumsum' has no kernel on cuda:0 and runs on the CPU"):
        compiled = placewright.compile(model, x, devices="cuda:0", **OPTIONS)
    with compiled:
        for _ in range(2):
            same(compiled(x), plain(x).detach())
        assert list(compiled.fallbacks) == ["cumsum"]
        assert compiled.fallbacks["cumsum"].startswith("cuda:0: Could not run 'aten::cumsum' with arguments from")
        told = compiled.compare(x, steps=2)
        assert [fallback.op for fallback in told.facts.fallbacks] == ["cumsum"]
        assert "the op cumsum has no kernel on its device and ran on the CPU" in str(told)
    assert gpus.recorder.not_kept() == []


def test_too_little_memory_is_one_sentence_and_no_fallback(gpus: StandIns) -> None:
    model, x = tower()
    with placewright.compile(model, x, devices="cuda:0,cpu:0", pins={"cumsum": "cuda:0"}, **OPTIONS) as compiled:
        expected = compiled(x)
        gpus.devices[0].exhausted_by.add("aten::cumsum")
        with pytest.raises(
            placewright.DeviceError, match=r"^cuda:0 has too little memory for the op 'cumsum': CUDA out of memory\. T"
        ):
            compiled(x)
        gpus.devices[0].exhausted_by.clear()
        assert torch.allclose(compiled(x), expected)
        assert not compiled.fallbacks


def test_a_device_that_fails_is_named(gpus: StandIns) -> None:
    model, x = tower()
    with placewright.compile(model, x, devices="cpu:0,cuda:1", pins={"cumsum": "cuda:1"}, **OPTIONS) as compiled:
        expected = compiled(x)
        gpus.devices[1].broken = "CUDA error: device-side assert triggered\nCUDA kernel errors might be late"
        with pytest.raises(placewright.DeviceError, match=r"^cuda:1 failed: CUDA error: device-side assert triggered;"):
            compiled(x)
        gpus.devices[1].broken = None
        assert torch.allclose(compiled(x), expected)


def test_a_device_that_fails_is_named_by_the_host_that_takes_its_tensor(gpus: StandIns) -> None:
    """The order in which the threads arrive does not matter."""
    driver = gpus.devices[1]
    place = on_stream("cuda:1", driver)
    handed = handing(place, Place(name="cpu:0"))
    with driver.on(place.stream):
        tensor = driver.brought(torch.ones(2))
    assert handed.send
    assert handed.take
    assert handed.signal
    assert handed.heed
    sent, signalled = handed.send(tensor), handed.signal()
    driver.broken = "CUDA error: device-side assert triggered"
    for call, what in ((handed.take, sent), (handed.heed, signalled)):
        with pytest.raises(placewright.DeviceError, match=r"^cuda:1 failed: CUDA error: device-side assert triggered;"):
            call(what)


def test_a_step_that_fails_half_way_changes_no_buffer(gpus: StandIns) -> None:
    """The buffer is written before the op that fails; on a device that is a copy, which the next step makes anew."""
    model, x = tower()
    with placewright.compile(model, x, devices="cuda:0", **OPTIONS) as compiled:
        before = model.seen.clone()
        gpus.devices[0].exhausted_by.add("aten::addmm")
        with pytest.raises(placewright.DeviceError):
            compiled(x)
        same(model.seen, before)
        gpus.devices[0].exhausted_by.clear()
        plain = copy.deepcopy(model)
        same(compiled(x), plain(x).detach())
        same(model.seen, plain.seen)


class Counting(nn.Module):
    """Counts its calls in a tensor that is no buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)
        self.calls = [torch.zeros(8)]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The layer, and the number of calls."""
        self.calls[0].view(2, 4).copy_(self.calls[0].view(2, 4) + 1)
        return self.layer(x) + self.calls[0]


def test_what_a_module_writes_to_in_inference_mode_is_written(gpus: StandIns) -> None:
    model = Counting().eval()
    ours, x = copy.deepcopy(model), torch.randn(4, 8)
    with placewright.compile(ours, (x,), devices="cuda:0", **OPTIONS) as planned:
        for _ in range(2):
            with torch.inference_mode():
                same(planned(x), model(x))
            same(ours.calls, model.calls)
            # Changed tensors are copied anew.
            for each in (ours, model):
                each.calls[0].mul_(2)


class Column(nn.Module):
    """Returns every fourth element of what it computes."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return tanh of the third column of a 3 x 4 matrix."""
        return torch.tanh(x)[:, 2:3]


@pytest.mark.parametrize("devices", ["cuda:0", "cuda:0,cuda:1"])
def test_an_output_with_gaps_is_packed_by_the_device_that_holds_it(gpus: StandIns, devices: str) -> None:
    x = torch.randn(3, 4)
    with placewright.compile(Column(), (x,), devices=devices, pins={"tanh": 0}, **OPTIONS) as compiled:
        found = compiled(x)
        same(found, torch.tanh(x)[:, 2:3])
        assert found.untyped_storage().nbytes() == found.nbytes


def test_a_module_on_a_gpu_is_read_where_it_is(gpus: StandIns) -> None:
    """The parameters and the input are on cuda:0: nothing is copied there, and ops on the CPU get copies."""
    model, x = tower()
    plain = copy.deepcopy(model)
    (given,) = brought_to(gpus.devices[0], model, x)
    pins = spread(model, (given,), {}, "cuda:0,cpu:0")
    with placewright.compile(model, given, devices="cuda:0,cpu:0", pins=pins, **OPTIONS) as compiled:
        same(compiled(given), plain(x).detach())
        same(model.seen, plain.seen)


def test_the_cpu_is_timed_on_tensors_of_its_own(gpus: StandIns, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tensors of a module on a GPU would make every op take as long as its launch."""
    model, x = tower()
    (given,) = brought_to(gpus.devices[0], model, x)
    timed: dict[bool, set[bool]] = {}
    once = TorchStep.once

    def watched(step: TorchStep, code: Any, parameters: Any, tensors: Any) -> None:
        there = {gpus.devices[0].holds(each) for each in (*parameters, *tensors, *step.program.constants.values())}
        timed[step.places[0].driver is None] = there
        once(step, code, parameters, tensors)

    monkeypatch.setattr(TorchStep, "once", watched)
    with placewright.compile(model, given, devices="cuda:0,cpu:0", **OPTIONS):
        assert timed == {False: {True}, True: {False}}


def test_too_little_memory_for_an_input_or_a_copy_is_one_sentence(
    gpus: StandIns, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, x = tower()
    with placewright.compile(model, x, devices="cuda:0", **OPTIONS) as compiled:
        expected, brought = compiled(x), StandIn.brought
        full = [lambda row: row.numel() == x.numel(), lambda row: row.numel() == model.first.weight.numel()]
        names = [r"the op 'input:x'", r"a copy of 'first.weight'"]
        for is_too_large, name in zip(full, names, strict=True):

            def bring(device: StandIn, row: Any, is_too_large: Any = is_too_large) -> Any:
                if is_too_large(row):
                    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.\nMore follows.")
                return brought(device, row)

            compiled.synchronize()
            monkeypatch.setattr(StandIn, "brought", bring)
            with pytest.raises(placewright.DeviceError, match=f"^cuda:0 has too little memory for {name}: CUDA out of"):
                compiled(x)
            monkeypatch.setattr(StandIn, "brought", brought)
            same(compiled(x), expected)


def test_a_plan_for_one_gpu_is_measured_by_its_allocator(gpus: StandIns) -> None:
    """The stand-in counts every byte that was ever asked for, copies of the weights included; the hidden layer has 3 x
    8 floats and the result 3 x 4."""
    model, x = tower()
    with placewright.compile(model, x, devices="cuda:0", **OPTIONS) as compiled:
        run = compiled.compare(x, steps=2).facts
    assert run.measured_peak_bytes is not None
    held = sum(tensor.nbytes for tensor in (*model.parameters(), *model.buffers()))
    assert run.measured_peak_bytes > held + 4 * (3 * 8 + 3 * 4)


def test_the_backend_of_torch_compile_runs_on_streams(gpus: StandIns) -> None:
    model, x = tower()
    plain = copy.deepcopy(model)
    options = {"devices": "cuda:0/0,cuda:0/1", **OPTIONS}
    compiled = torch.compile(model, backend="placewright", options=options)
    torch.testing.assert_close(compiled(x), plain(x))
    compiled(x).sum().backward()
    plain(x).sum().backward()
    for own, other in zip(model.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(own.grad, other.grad)
