"""Detection of this host's machine: GPUs as listed by nvidia-smi, CPU sockets as listed by Linux."""

from __future__ import annotations

import csv
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from placewright.machine import Device, Machine
from placewright.machines.presets import DevicePreset, find_preset, preset_of_driver
from placewright.machines.topology import all_to_all, assemble, default_link, number_devices
from placewright.support.errors import InputError

_SMI_COMMAND = ["nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader,nounits"]
_SMI_TIMEOUT_S = 30
#: The measured memory bandwidth of one core by itself (presets.toml); many cores share that of their socket.
_CORE_BANDWIDTH = 25e9
#: The clock where Linux does not state it, as on ARM.
_ASSUMED_MHZ = 2000


def detect_machine() -> Machine:
    """Detect the CPU sockets and NVIDIA GPUs of this host, with the default links of their presets.

    Memory sizes are those reported by the driver and Linux; rates come from the presets, for the CPU from its cores and
    clock. Raises InputError when a GPU has no preset, nvidia-smi fails, or /proc cannot be read.
    """
    presets = [*cpu_presets(_read("/proc/cpuinfo"), _read("/proc/meminfo")), *list_gpus()]
    return assemble("detected", number_devices(presets), all_to_all(presets, default_link), None)


def detect_cpu() -> tuple[Device, int]:
    """Return this host's first CPU socket, and its number of cores. Raises InputError when /proc cannot be read."""
    cpuinfo = _read("/proc/cpuinfo")
    return cpu_presets(cpuinfo, _read("/proc/meminfo"))[0].device, _count_cores(_first_socket(cpuinfo))


def cpu_name() -> str:
    """Return the model name of this host's processor. Raises InputError when /proc cannot be read."""
    processors = _processors(_read("/proc/cpuinfo"))
    return processors[0].get("model name", "CPU") if processors else "CPU"


def list_gpus() -> list[DevicePreset]:
    """List the NVIDIA GPUs of this host, in the order of nvidia-smi; none without it. Raises InputError where it fails,
    or for a GPU without a preset."""
    return list(gpu_presets(_query_gpus()))


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise InputError(f"cannot read '{path}' ({error.strerror}): describe this machine in a devices.toml") from error


def _query_gpus() -> str:
    """Return the output of nvidia-smi: one line "name, MiB" per GPU; nothing where there is no nvidia-smi."""
    if shutil.which("nvidia-smi") is None:
        return ""
    import subprocess  # here because its import takes as long as that of the rest of this package

    try:
        result = subprocess.run(_SMI_COMMAND, capture_output=True, text=True, timeout=_SMI_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InputError(f"nvidia-smi did not run: {error}") from error
    complaint = (result.stdout + result.stderr).strip()
    if complaint.startswith("No devices"):
        return ""
    if result.returncode != 0:
        raise InputError(f"nvidia-smi failed with code {result.returncode}: {complaint}")
    return result.stdout


def gpu_presets(smi_output: str) -> Iterator[DevicePreset]:
    """Yield one preset per line "name, MiB", with that memory. Raises InputError for a GPU without a preset."""
    for row in csv.reader(smi_output.splitlines(), skipinitialspace=True):
        if len(row) != 2 or not row[1].strip().isdecimal():
            raise InputError(f"nvidia-smi printed '{', '.join(row)}' instead of a name and a memory size")
        name, memory = row[0], int(row[1]) * 2**20
        preset = preset_of_driver(name, memory)
        if preset is None:
            raise InputError(f"nvidia-smi lists '{name}', which no preset describes: describe it in a devices.toml")
        yield replace(preset, device=replace(preset.device, memory_bytes=memory))


def cpu_presets(cpuinfo: str, meminfo: str) -> list[DevicePreset]:
    """List one preset per socket, from the text of /proc/cpuinfo and /proc/meminfo.

    Peak: cores x clock x 2 fused multiply-add units x vector width x 2, the width read from the flags. Linux does not
    list the bandwidth: it is that of the preset, or less if so few cores cannot use all of it. Memory is divided evenly
    among sockets. Raises InputError when the texts lack processors or memory.
    """
    reference = find_preset("cpu")
    processors = _processors(cpuinfo)
    memory = re.fullmatch(r"(\d+) kB", _keys_and_values(meminfo).get("MemTotal", ""))
    if not processors or memory is None:
        raise InputError("/proc lists no processors or no memory: describe this machine in a devices.toml")
    sockets = sorted({processor.get("physical id", "0") for processor in processors})
    return [
        _socket(
            [processor for processor in processors if processor.get("physical id", "0") == socket],
            int(memory[1]) * 1024 // len(sockets),
            reference,
        )
        for socket in sockets
    ]


def _socket(processors: list[dict[str, str]], memory_bytes: int, reference: DevicePreset) -> DevicePreset:
    cores = _count_cores(processors)
    clock_hz = 1e6 * float(processors[0].get("cpu MHz", _ASSUMED_MHZ))
    flags = processors[0].get("flags", "").split()
    floats = 16 if "avx512f" in flags else 8 if "avx2" in flags else 4
    peak = cores * clock_hz * 2 * floats * 2
    bandwidth = reference.device.memory_bandwidth_bytes_per_s
    assert bandwidth is not None
    device = replace(
        reference.device,
        memory_bytes=memory_bytes,
        peak_flops_per_s={"default": peak, "float32": peak, "float64": peak / 2},
        memory_bandwidth_bytes_per_s=min(bandwidth, _CORE_BANDWIDTH * cores),
    )
    return replace(reference, description=processors[0].get("model name", "CPU"), device=device)


def _processors(cpuinfo: str) -> list[dict[str, str]]:
    blocks = [_keys_and_values(block) for block in cpuinfo.split("\n\n")]
    return [block for block in blocks if "processor" in block]


def _first_socket(cpuinfo: str) -> list[dict[str, str]]:
    processors = _processors(cpuinfo)
    first = min(processor.get("physical id", "0") for processor in processors)
    return [processor for processor in processors if processor.get("physical id", "0") == first]


def _count_cores(processors: list[dict[str, str]]) -> int:
    return len({processor.get("core id", str(index)) for index, processor in enumerate(processors)})


def _keys_and_values(block: str) -> dict[str, str]:
    pairs = (line.partition(":") for line in block.splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs}
