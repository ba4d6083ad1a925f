"""Names of CUDA devices, the machine that they are, and ops that PyTorch has no kernel for."""

import pytest
import torch
from stand_in_gpu import StandIns
from torch import nn

import placewright
from placewright.execution.devices import available_cores
from placewright.execution.pytorch.fallback import lacks_kernel
from placewright.execution.pytorch.layout import extent_of, moved
from placewright.execution.pytorch.machine import cores_by_device, torch_machine


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> StandIns:
    found = StandIns(2)
    found.install(monkeypatch.setattr)
    return found


@pytest.mark.skipif(torch.cuda.is_available(), reason="says what happens without a GPU")
def test_a_cuda_device_without_a_gpu_is_refused() -> None:
    for devices in ("cuda:0", "cpu:0,cuda", "cuda:0/1"):
        with pytest.raises(
            placewright.InputError, match=r"^device 'cuda\S*' is not there: (this PyTorch|PyTorch finds)"
        ):
            placewright.compile(nn.Linear(2, 2), torch.zeros(1, 2), devices=devices)


@pytest.mark.parametrize(
    ("devices", "sentence"),
    [
        ("cuda:2", "device 'cuda:2' is not there: there are 2 CUDA devices here, from cuda:0 on"),
        ("cuda:0,cuda:0", "devices names cuda:0, cuda:0; at least one is needed, each named once"),
        ("cuda:0/x", "device 'cuda:0/x' cannot run a plan; cpu:0, cpu:1, cuda:0 and so on can"),
        ("cuda:0-1", "device 'cuda:0-1' cannot run a plan; cpu:0, cpu:1, cuda:0 and so on can"),
    ],
)
def test_what_is_no_device_here_is_named(gpus: StandIns, devices: str, sentence: str) -> None:
    with pytest.raises(placewright.InputError) as raised:
        torch_machine(devices)
    assert str(raised.value) == sentence


def test_streams_of_one_gpu_share_its_memory_and_hand_tensors_over_without_a_copy(gpus: StandIns) -> None:
    """Two streams have 40 GiB each of 80. A tensor of 1 GiB takes as long between them as one of a byte; between two
    GPUs, and between a GPU and the host, it takes longer."""
    found = torch_machine("cpu:0,cuda:0/0,cuda:0/1,cuda:1")
    assert [device.kind for device in found.devices[1:]] == ["h100"] * 3
    assert [device.memory_bytes for device in found.devices] == [None, 40 * 2**30, 40 * 2**30, 80 * 2**30]
    times = [[link.transfer_time_ns(2**30) for link in row] for row in found.links]
    assert times[1][2] == found.links[1][2].transfer_time_ns(1) == times[2][1]
    assert all(time > 10 * times[1][2] for time in (times[0][1], times[1][0], times[1][3], times[3][2]))
    assert found.launch == "device-threads"


def test_threads_that_launch_may_run_on_any_core_and_cpu_devices_share_them(gpus: StandIns) -> None:
    every = frozenset(available_cores())
    assert cores_by_device(torch_machine("cuda:0,cuda:1")) == [every, every]
    assert cores_by_device(torch_machine("cpu:0,cuda:0")) == [every, every]
    if len(every) > 1:
        first, launches, second = cores_by_device(torch_machine("cpu:0,cuda:0,cpu:1"))
        assert launches == every
        assert not first & second
        assert first | second <= every


def test_a_gpu_that_no_preset_describes_has_a_kind_of_its_own(gpus: StandIns, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpus, "name", lambda index: "NVIDIA Model 9 (test)")
    assert torch_machine("cuda:0").devices[0].kind == "nvidia-model-9-test"


def test_pytorch_says_that_it_has_no_kernel_in_words_that_are_understood() -> None:
    library = torch.library.Library("placewright_tests", "FRAGMENT")
    library.define("cpu_kernel(Tensor x) -> Tensor")
    library.impl("cpu_kernel", lambda x: x + 1, "CPU")
    with pytest.raises(NotImplementedError) as raised:
        torch.ops.placewright_tests.cpu_kernel(torch.empty(2, device="meta"))
    assert lacks_kernel(raised.value)
    with pytest.raises((NotImplementedError, RuntimeError)) as raised_by_dtype:
        torch.ones(2, 2, dtype=torch.bool) @ torch.ones(2, 2, dtype=torch.bool)
    assert lacks_kernel(raised_by_dtype.value)
    for error in (
        RuntimeError("mat1 and mat2 shapes cannot be multiplied (2x3 and 2x3)"),
        RuntimeError("CUDA error: an illegal memory access was encountered"),
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
        ValueError("not implemented for this"),
    ):
        assert not lacks_kernel(error)


def test_the_extent_of_a_tensor_counts_its_gaps_but_no_element_twice() -> None:
    whole = torch.arange(12.0).view(3, 4)
    assert extent_of(whole.t()) == 12
    assert extent_of(whole[1:]) == 8
    # 1 + 2 * 4 + 1 lie between the first and the last of 2 columns.
    assert extent_of(whole[:, :2]) == 10
    assert extent_of(torch.ones(1).expand(3, 4)) == 1
    assert extent_of(torch.empty(0, 3)) == 0


@pytest.mark.parametrize(
    "tensor",
    [
        torch.arange(24.0).reshape(4, 6),
        torch.arange(24.0).reshape(4, 6).t(),
        torch.arange(24.0).reshape(4, 6)[:, 1:5],
        torch.arange(24.0).reshape(4, 6)[1:3, ::3],
        torch.arange(3.0).expand(4, 3),
        torch.zeros(0, 3),
        torch.tensor(5),
        torch.arange(4.0).to(torch.complex64).conj(),
        torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
    ],
    ids=["whole", "transposed", "columns", "gaps", "expanded", "empty", "scalar", "conjugate", "channels last"],
)
def test_a_tensor_moves_as_a_row_and_arrives_with_its_strides(tensor: torch.Tensor) -> None:
    rows = []

    def move(row: torch.Tensor) -> torch.Tensor:
        rows.append(row)
        return row.clone()

    found = moved(tensor, move)
    assert torch.equal(found, tensor)
    assert rows[0].dim() == 1
    assert rows[0].is_contiguous()
    # A tensor with more gaps than elements loses them, and keeps the order of its dimensions.
    assert found.stride() == (tensor.stride() if extent_of(tensor) <= 2 * tensor.numel() else (2, 1))
    assert found.untyped_storage().data_ptr() != tensor.untyped_storage().data_ptr() or not tensor.numel()
