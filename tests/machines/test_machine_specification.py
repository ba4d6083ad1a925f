"""Machines in one word."""

import re
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placewright.machine import Link
from placewright.machines import load_machine
from placewright.machines.presets import find_link, find_preset
from placewright.machines.specification import as_machine
from placewright.support.errors import InputError


def link(name: str) -> Link:
    return find_link(name).link


def test_a_count_repeats_a_device_and_names_are_short() -> None:
    machine = load_machine("2xh100")
    assert [device.name for device in machine.devices] == ["gpu0", "gpu1"]
    assert [device.kind for device in machine.devices] == ["h100", "h100"]
    assert machine.devices[0].memory_bytes == find_preset("h100").device.memory_bytes
    assert machine.transfer_model == "overlapped"
    assert machine.name == "2xh100"


USUAL = """k80 pcie3, p100 pcie3, v100 nvlink2, a100 nvlink3, l4 pcie4, h100-pcie pcie5, h100 nvlink4, cpu socket,
b200 nvlink5, mi300x xgmi4, tpu-v5p ici5, ideal free"""


@pytest.mark.parametrize(("device", "name"), [pair.split() for pair in USUAL.split(",")])
def test_equal_devices_have_their_usual_link(device: str, name: str) -> None:
    assert load_machine(f"2x{device}").links[0][1] == link(name)


def test_a_cpu_talks_to_each_gpu_over_the_pcie_of_the_gpu() -> None:
    machine = load_machine("cpu+2xv100")
    assert [device.name for device in machine.devices] == ["cpu0", "gpu0", "gpu1"]
    assert machine.links[0][1] == machine.links[1][0] == link("pcie3")
    assert machine.links[1][2] == link("nvlink2")


def test_different_gpus_meet_over_the_slower_pcie() -> None:
    # nvlink2 does not plug into nvlink3; a v100 has pcie3, an a100 pcie4
    assert load_machine("v100+a100").links[0][1] == link("pcie3")
    assert load_machine("h100+h200").links[0][1] == link("nvlink4")


def test_a_named_link_joins_every_pair() -> None:
    machine = load_machine("cpu+2xk80/100g")
    assert {machine.links[i][j] for i in range(3) for j in range(3) if i != j} == {link("100g")}


def test_nvlink_is_the_generation_of_the_device() -> None:
    assert load_machine("4xa100-80g/nvlink").links[0][3] == link("nvlink3")
    assert load_machine("p100-sxm+v100/nvlink").links[0][1] == link("nvlink1")


@pytest.mark.parametrize("name", ["nvlink", "nvlink3"])
def test_nvlink_does_not_reach_a_cpu(name: str) -> None:
    assert load_machine(f"cpu+a100/{name}").links[0][1] == link("pcie4")


def test_a_device_may_have_another_memory_than_its_preset() -> None:
    machine = load_machine("2xRTX3090:12GiB/pcie3")
    assert machine.name == "2xrtx3090:12GiB/pcie3"
    assert [device.memory_bytes for device in machine.devices] == [12 * 2**30] * 2
    assert machine.devices[0].peak_flops_per_s == find_preset("rtx3090").device.peak_flops_per_s
    for text, sentence in (("h100:4", "did you mean 4xh100"), ("rtx3090:0GiB", "impossible memory of 0 bytes")):
        with pytest.raises(InputError, match=sentence):
            load_machine(text)


def test_who_launches_stands_behind_an_at_sign() -> None:
    assert load_machine("cpu+2xh100").hosts == (-1, 0, 0)  # a CPU launches its own work
    assert load_machine("cpu+2xh100/nvlink@device-threads").hosts == (-1, 1, 2)
    assert load_machine("2xh100@GRAPHS").hosts == (-1, -1)
    assert load_machine("2xideal/free").hosts == (-1, -1)  # launching takes no time


def test_the_papers_machine_is_free_and_blocking() -> None:
    assert load_machine("2xideal/free").transfer_model == "blocking"
    assert load_machine("2xideal").transfer_model == "blocking"
    assert load_machine("2xideal/pcie3").transfer_model == "overlapped"


@pytest.mark.parametrize(
    ("specification", "why"),
    [
        ("h10", "did you mean h100"),
        ("2xh100/nvlnk", "did you mean nvlink"),
        ("2xt4/nvlink", "'t4' has no NVLink"),
        ("2xcpu/nvlink", "names NVLink, which no CPU has"),
        ("cpu/nvlink3", "names NVLink, which no CPU has"),
        ("\u0662xh100", "unknown device"),
        ("9" * 5000 + "xh100", "unknown device"),
        ("", "is not understood"),
        ("2xh100+", "is not understood"),
        ("h100 h200", "is not understood"),
        ("2xh100/", "without a link"),
        ("0xh100", "asks for 0"),
        ("65xh100", "1 to 64"),
        ("999999999xh100", "1 to 64"),
        ("4xh100@", "known are host-thread, device-threads, graphs"),
        ("4xh100@graph", "did you mean graphs"),
        ("missing.toml", "cannot read 'missing.toml'"),
    ],
)
def test_a_bad_specification_is_one_clear_sentence(specification: str, why: str) -> None:
    with pytest.raises(InputError, match=why):
        load_machine(specification)


def test_a_path_is_read_as_a_file(tmp_path: Path) -> None:
    path = tmp_path / "machine.toml"
    path.write_text('[[devices]]\npreset = "t4"\n')
    assert load_machine(path) == load_machine(str(path))
    assert load_machine(path).devices[0].kind == "t4"


@given(st.text(max_size=12) | st.text("0123456789xhk80+/ cpunvlikde-.toml", max_size=16))
def test_no_specification_does_worse_than_an_input_error(text: str) -> None:
    with suppress(InputError):
        assert load_machine(text).num_devices >= 1


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("h100x2", "2xh100"),
        ("h100 x2", "2xh100"),
        ("2 x h100", "2xh100"),
        ("2*h100", "2xh100"),
        ("2h100", "2xh100"),
        ("h100:4", "4xh100"),
        ("h100,h100", "h100+h100"),
        ("cpu,h100x8/pcie5", "cpu+8xh100/pcie5"),
        ("rtx4090x2", "2xrtx4090"),
    ],
)
def test_a_machine_spelt_in_another_tools_way_is_answered_with_ours(text: str, meant: str) -> None:
    with pytest.raises(InputError) as caught:
        load_machine(text)
    assert str(caught.value) == f"machine '{text}' is not understood; did you mean {meant}?"
    load_machine(meant)


@pytest.mark.parametrize("text", ["cuda", "cuda:0", "cuda:0,cuda:1", "cpu+gpu:0", "mps"])
def test_numbered_devices_are_answered_with_how_to_say_what_they_are(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("placewright.machines.detect.shutil.which", lambda name: None)
    with pytest.raises(InputError, match="does not say what the devices are; write it like 2xh100"):
        load_machine(text)


def test_numbered_devices_that_are_here_are_answered_with_their_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "nvidia-smi").write_text(
        "#!/bin/sh\necho 'Tesla T4, 15360'\necho 'Tesla T4, 15360'\necho 'NVIDIA L4, 23034'\n"
    )
    (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    for text, answer in {"cuda:0,cuda:1,cuda:2": "2xt4+l4", "cuda:2": "l4", "cuda:3": "it like 2xh100"}.items():
        with pytest.raises(InputError, match=f"what the devices are; write {re.escape(answer)}$"):
            load_machine(text)


def test_a_list_of_names_is_a_machine() -> None:
    assert as_machine(["cpu", "2xh100"]) == load_machine("cpu+2xh100")
    with pytest.raises(InputError, match="does not say what the devices are"):
        as_machine(["cuda:0", "cuda:1"])


@pytest.mark.parametrize("name", ["rtx3090", "rtx4090", "rtx5090", "a10", "a10g", "l40s", "a6000", "b200", "mi250x",
                                  "mi300x", "m1", "m4-max", "tpu-v4", "tpu-v5e", "tpu-v5p"])  # fmt: skip
def test_two_of_any_device_with_a_cpu_are_a_machine(name: str) -> None:
    machine = load_machine(f"cpu+2x{name}")
    assert machine.links[1][2] == link(find_preset(name).link)
    assert machine.links[0][1] == link(find_preset(name).pcie)
