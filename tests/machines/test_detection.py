"""Finding the present machine, from texts as Linux and nvidia-smi write them."""

from pathlib import Path

import pytest

from placewright.machines import detect_machine
from placewright.machines.detect import cpu_presets, gpu_presets
from placewright.support.errors import InputError

TWO_SOCKETS = "\n\n".join(
    f"processor\t: {number}\nmodel name\t: Test CPU\ncpu MHz\t\t: 2000.0\nphysical id\t: {number // 4}\n"
    f"core id\t\t: {number % 2}\nflags\t\t: fpu avx2 fma"
    for number in range(8)
)
MEMORY = "MemTotal:       16777216 kB\nMemFree:        1 kB\n"


def fake_nvidia_smi(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Puts a program named nvidia-smi first on the path."""
    program = folder / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def test_gpus_get_the_rates_of_their_preset_and_the_memory_of_the_driver() -> None:
    listed = {"h100": ("NVIDIA H100 80GB HBM3", 81000), "t4": ("Tesla T4", 15360)}
    # One name of the driver for two cards, which their memory tells apart.
    listed |= {name: ("NVIDIA GeForce RTX 3080", size) for name, size in (("rtx3080", 10240), ("rtx3080-12g", 12053))}
    found = list(gpu_presets("".join(f"{name}, {size}\n" for name, size in listed.values())))
    assert [preset.name for preset in found] == list(listed)
    assert [preset.device.memory_bytes for preset in found] == [size * 2**20 for _, size in listed.values()]


@pytest.mark.parametrize(
    ("output", "why"),
    [("Voodoo 2, 12\n", "'Voodoo 2', which no preset describes"), ("Tesla T4, [N/A]\n", "instead of a name")],
)
def test_an_unknown_gpu_is_named(output: str, why: str) -> None:
    with pytest.raises(InputError, match=why):
        list(gpu_presets(output))


def test_each_socket_is_a_device_with_its_share_of_memory() -> None:
    sockets = cpu_presets(TWO_SOCKETS, MEMORY)
    # per socket 2 cores (hyperthreads share a core id) x 2 GHz x 2 units x 8 floats x 2 = 128 GFLOP/s
    assert [socket.device.peak_flops_per_s["float32"] for socket in sockets] == [128e9, 128e9]
    assert [socket.device.memory_bytes for socket in sockets] == [8 * 2**30, 8 * 2**30]
    # 2 cores that can use 25 GB/s each, of the preset's 204.8
    assert sockets[0].device.memory_bandwidth_bytes_per_s == pytest.approx(50e9)
    assert sockets[0].description == "Test CPU"


def test_processors_without_socket_or_clock_still_count() -> None:
    (socket,) = cpu_presets("processor : 0\nBogoMIPS : 50\n\nprocessor : 1\n\nHardware : board\n", MEMORY)
    # 2 cores x 2 GHz assumed x 2 units x 4 floats x 2
    assert socket.device.peak_flops_per_s["float32"] == 64e9


def test_empty_proc_files_are_refused() -> None:
    with pytest.raises(InputError, match="no processors or no memory"):
        cpu_presets("", MEMORY)
    with pytest.raises(InputError, match="no processors or no memory"):
        cpu_presets(TWO_SOCKETS, "")


needs_proc = pytest.mark.skipif(not Path("/proc/cpuinfo").exists(), reason="needs Linux's /proc")


@needs_proc
def test_without_nvidia_smi_the_machine_is_its_cpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    machine = detect_machine()
    assert {device.kind for device in machine.devices} == {"cpu"}
    assert machine.devices[0].name == "cpu0"


@needs_proc
def test_gpus_stand_beside_the_cpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_nvidia_smi(tmp_path, "echo 'Tesla V100-SXM2-16GB, 16160'; echo 'Tesla V100-SXM2-16GB, 16160'", monkeypatch)
    machine = detect_machine()
    assert [device.name for device in machine.devices][-2:] == ["gpu0", "gpu1"]
    assert machine.links[-1][-2].bandwidth_bytes_per_s == 25e9  # nvlink2
    assert machine.links[0][-1].bandwidth_bytes_per_s == 12e9  # pcie3


@needs_proc
def test_a_driver_without_gpus_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_nvidia_smi(tmp_path, "echo 'No devices were found'; exit 6", monkeypatch)
    assert {device.kind for device in detect_machine().devices} == {"cpu"}


@needs_proc
def test_a_failing_driver_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_nvidia_smi(tmp_path, "echo 'cannot talk to the driver' >&2; exit 9", monkeypatch)
    with pytest.raises(InputError, match="code 9: cannot talk to the driver"):
        detect_machine()
