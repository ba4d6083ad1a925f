"""The devices of this host by the names PyTorch gives them, as a machine to plan for and as cores to run on."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import replace

from placewright.machine import Device, Link, Machine
from placewright.machines.detect import detect_cpu
from placewright.machines.host import parted
from placewright.plans.record import Plan
from placewright.support.errors import InputError, shown
from placewright.support.quantities import counted

CPU_NAME = re.compile(r"cpu(?::[0-9]{1,3})?")
#: The time to hand a tensor to a waiting thread, from the sender's release of a lock to the receiver's next line.
HANDOVER_NS = 10_000


def local_machine(devices: str | Sequence[str]) -> Machine:
    """The machine made of devices of this host, "cpu:0,cpu:1" or a list of names: CPU devices share its cores.

    Tensors stay where they are when another CPU device reads them, so a transfer takes the time to wake a thread,
    whatever its size. Raises InputError naming the device that does not exist here.
    """
    names = device_names(devices, CPU_NAME, "cpu:0, cpu:1")
    made = tuple(cpu_devices(names))
    link = Link(latency_ns=HANDOVER_NS)
    return Machine(name="+".join(names), devices=made, links=((link,) * len(names),) * len(names))


def device_names(devices: str | Sequence[str], known: re.Pattern[str], examples: str) -> list[str]:
    """The names in a text or list. Raises InputError for an empty list, and for a repeated or unknown name."""
    names = devices.replace("+", ",").split(",") if isinstance(devices, str) else list(devices)
    for name in names:
        if not known.fullmatch(name):
            raise InputError(f"device '{shown(name)}' cannot run a plan; {examples} and so on can")
    if not names or len(set(names)) != len(names):
        raise InputError(f"devices names {', '.join(names) or 'none'}; at least one is needed, each named once")
    return names


def check_device_count(plan: Plan, machine: Machine) -> None:
    """Raises InputError unless a plan has as many devices as a machine, whose devices take their places."""
    if (computing := parted(plan.machine)[0].num_devices) != machine.num_devices:
        planned = counted(computing, "device")
        raise InputError(f"the plan is for {planned}, and devices names {machine.num_devices}")


def cpu_devices(names: Sequence[str]) -> list[Device]:
    """CPU devices that share this process's cores evenly. Raises InputError where there are too few."""
    cores = len(available_cores())
    if len(names) > cores:
        raise InputError(f"{len(names)} CPU devices need a core each, and this process may use {cores}")
    return [cpu_device(name, cores // len(names)) for name in names]


def cpu_device(name: str, cores: int) -> Device:
    """A CPU device with some cores of this host's first socket; it has no memory limit, as all share the memory."""
    socket, total = detect_cpu()
    share = cores / total
    return replace(
        socket,
        name=name,
        kind=f"cpu-{cores}-core",
        memory_bytes=None,
        peak_flops_per_s={dtype: rate * share for dtype, rate in socket.peak_flops_per_s.items()},
        memory_bandwidth_bytes_per_s=(socket.memory_bandwidth_bytes_per_s or 0.0) * share,
    )


def cores_of(count: int) -> list[frozenset[int]]:
    """The cores of each of `count` CPU devices: equal shares of those this process may use."""
    cores = available_cores()
    share = max(1, len(cores) // count)
    return [frozenset(cores[place * share : (place + 1) * share] or cores) for place in range(count)]


def available_cores() -> list[int]:
    """Numbers of the cores that this process may use, ascending."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))
