"""The host's memory beside devices that compute: tensors are moved there and back, and nothing runs there."""

from __future__ import annotations

from dataclasses import dataclass, replace

from placewright.machine import HOST_KIND, MAX_DEVICES, Device, Link, Machine
from placewright.machines.presets import find_link, list_presets

#: What memory limits call it.
HOST_NAME = "host"


@dataclass(frozen=True, kw_only=True)
class HostMemory:
    """Memory that devices move tensors to. All share it, and each has links of its own.

    Attributes
    ----------
    there, back
        The links to it and from it, of each device.
    memory_bytes
        How much of it may be used; None for no limit.
    """

    there: tuple[Link, ...]
    back: tuple[Link, ...]
    memory_bytes: int | None = None

    def beside(self, device: int) -> HostMemory:
        """What one of the devices has alone."""
        return replace(self, there=(self.there[device],), back=(self.back[device],))


def usual_host(machine: Machine) -> HostMemory | None:
    """The host's memory of a machine, over the PCI Express that the preset of each device names; None where moving is
    not planned: beside a CPU, a device that is no preset or has the host's name, as many devices as a machine can have,
    and for blocking transfers."""
    if machine.num_devices == MAX_DEVICES or machine.transfer_model != "overlapped":
        return None
    presets = {preset.name: preset for preset in list_presets()}
    links = []
    for device in machine.devices:
        preset = presets.get(device.kind)
        if preset is None or preset.family == "cpu" or not preset.pcie or device.name == HOST_NAME:
            return None
        links.append(find_link(preset.pcie).link)
    return HostMemory(there=tuple(links), back=tuple(links))


def with_host(machine: Machine, host: HostMemory) -> Machine:
    """The machine with the host's memory behind its devices as one more."""
    assert not machine.devices[-1].is_host
    memory = Device(name=HOST_NAME, kind=HOST_KIND, memory_bytes=host.memory_bytes, launches_itself=True)
    links = tuple((*row, there) for row, there in zip(machine.links, host.there, strict=True))
    return replace(machine, devices=(*machine.devices, memory), links=(*links, (*host.back, Link())))


def parted(machine: Machine) -> tuple[Machine, HostMemory | None]:
    """The machine without the host's memory, and that memory, where it has one."""
    if not machine.devices[-1].is_host:
        return machine, None
    host = HostMemory(
        there=tuple(row[-1] for row in machine.links[:-1]),
        back=machine.links[-1][:-1],
        memory_bytes=machine.devices[-1].memory_bytes,
    )
    links = tuple(row[:-1] for row in machine.links[:-1])
    return replace(machine, devices=machine.devices[:-1], links=links), host
