"""The devices of this host that PyTorch can run a plan on, as a machine to plan for, and the cores of their threads.

Imported only where torch is known to be present.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from placewright.execution.devices import (
    CPU_NAME,
    HANDOVER_NS,
    available_cores,
    cores_of,
    cpu_devices,
    device_names,
    local_machine,
)
from placewright.execution.pytorch.cuda import CUDA_NAME, Gpus, check_gpus, cuda_index
from placewright.machine import Device, Link, Machine
from placewright.machines.presets import DevicePreset, find_preset, preset_of_driver
from placewright.machines.topology import default_link
from placewright.support.errors import InputError

_NAME = re.compile(f"{CPU_NAME.pattern}|{CUDA_NAME.pattern}")
#: The preset for a GPU that no preset describes: its ops are timed, so that little depends on it.
_LIKE = "a100"


def torch_machine(devices: str | Sequence[str], *, recorded: bool = False) -> Machine:
    """The machine made of devices of this host, by names in order: CPU devices share its cores ("cpu:0,cpu:1"), CUDA
    devices are GPUs ("cuda:0") or streams of one ("cuda:0/0,cuda:0/1"), which share its memory.

    Links are those of the presets until they are measured. recorded: whether steps will be replays of a CUDA graph.
    Raises InputError for a device that does not exist here, and for others than streams of one GPU that are to record.
    """
    names = device_names(devices, _NAME, "cpu:0, cpu:1, cuda:0")
    indices = [cuda_index(name) for name in names]
    if recorded and (None in indices or len(set(indices)) > 1):
        raise InputError(f"a CUDA graph records the work of one GPU, and the devices are {', '.join(names)}")
    if all(index is None for index in indices):
        return local_machine(names)
    check_gpus(names)
    cpus = iter(cpu_devices([name for name, index in zip(names, indices, strict=True) if index is None]))
    made = tuple(
        next(cpus) if index is None else _gpu(name, index, indices.count(index))
        for name, index in zip(names, indices, strict=True)
    )
    links = tuple(tuple(_link(source, destination) for destination in indices) for source in indices)
    # Each device has a thread of its own, which launches its ops, or records them beforehand.
    return Machine(name="+".join(names), devices=made, links=links, launch="graphs" if recorded else "device-threads")


def cores_by_device(machine: Machine) -> list[frozenset[int]]:
    """The cores of each device's thread: CPU devices share them evenly; a thread that launches may run on any."""
    is_cpu = [cuda_index(device.name) is None for device in machine.devices]
    shares = iter(cores_of(sum(is_cpu)) if any(is_cpu) else ())
    return [next(shares) if computes else frozenset(available_cores()) for computes in is_cpu]


def _gpu(name: str, index: int, sharing: int) -> Device:
    """A GPU, or one of the devices that share it. They divide the memory that the driver reports equally."""
    preset = _preset(index)
    known = preset.device if Gpus.name(index) in preset.driver_names else replace(preset.device, kind=_slug(index))
    return replace(known, name=name, memory_bytes=Gpus.memory_bytes(index) // sharing)


def _preset(index: int) -> DevicePreset:
    return preset_of_driver(Gpus.name(index), Gpus.memory_bytes(index)) or find_preset(_LIKE)


def _slug(index: int) -> str:
    return re.sub(r"[^a-z0-9]+", "-", Gpus.name(index).lower()).strip("-")


def _link(source: int | None, destination: int | None) -> Link:
    if source == destination:  # Threads of the host, or streams of one GPU: the tensor stays where it is.
        return Link(latency_ns=HANDOVER_NS)
    first, second = (find_preset("cpu") if index is None else _preset(index) for index in (source, destination))
    return default_link(first, second)
