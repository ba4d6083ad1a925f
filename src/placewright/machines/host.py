"""The host's memory beside a device that computes: tensors are moved there and back, and nothing runs there."""

from __future__ import annotations

from dataclasses import dataclass, replace

from placewright.machine import HOST_KIND, Device, Link, Machine
from placewright.machines.presets import find_link, list_presets


@dataclass(frozen=True, kw_only=True)
class HostMemory:
    """Memory that a device moves tensors to.

    Attributes
    ----------
    there, back
        The links to it and from it.
    memory_bytes
        How much of it may be used; None for no limit.
    """

    there: Link
    back: Link
    memory_bytes: int | None = None


def usual_host(machine: Machine) -> HostMemory | None:
    """The host's memory of a machine of one device, over the PCI Express that its preset names; None where moving is
    not planned: for a CPU, a device that is no preset, and blocking transfers."""
    if machine.num_devices != 1 or machine.transfer_model != "overlapped":
        return None
    kind = machine.devices[0].kind
    preset = next((preset for preset in list_presets() if preset.name == kind), None)
    if preset is None or preset.family == "cpu" or not preset.pcie:
        return None
    link = find_link(preset.pcie).link
    return HostMemory(there=link, back=link)


def with_host(machine: Machine, host: HostMemory) -> Machine:
    """The machine of one device with the host's memory behind it as a device."""
    assert machine.num_devices == 1
    memory = Device(name="host", kind=HOST_KIND, memory_bytes=host.memory_bytes, launches_itself=True)
    links = ((Link(), host.there), (host.back, Link()))
    return replace(machine, devices=(*machine.devices, memory), links=links)


def parted(machine: Machine) -> tuple[Machine, HostMemory | None]:
    """The machine without the host's memory, and that memory, where it has one."""
    if not machine.devices[-1].is_host:
        return machine, None
    host = HostMemory(
        there=machine.links[0][-1], back=machine.links[-1][0], memory_bytes=machine.devices[-1].memory_bytes
    )
    links = tuple(row[:-1] for row in machine.links[:-1])
    return replace(machine, devices=machine.devices[:-1], links=links), host
