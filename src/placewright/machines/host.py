"""The host's memory next to devices that compute: tensors are moved there and back, and nothing runs there."""

from __future__ import annotations

from dataclasses import dataclass, replace

from placewright.machine import HOST_KIND, MAX_DEVICES, Device, Link, Machine
from placewright.machines.presets import find_link, list_presets

#: Its name in memory limits.
HOST_NAME = "host"


@dataclass(frozen=True, kw_only=True)
class HostMemory:
    """Memory that devices move tensors to. All share it, and each has links of its own.

    Attributes
    ----------
    there, back
        The links from each device to it, and back.
    memory_bytes
        The most of it that may be used; None for no limit.
    """

    there: tuple[Link, ...]
    back: tuple[Link, ...]
    memory_bytes: int | None = None

    def beside(self, device: int) -> HostMemory:
        """Return the host's memory with the links of one device alone."""
        return replace(self, there=(self.there[device],), back=(self.back[device],))


def usual_host(machine: Machine) -> HostMemory | None:
    """Return the host's memory of a machine, connected by the PCI Express links that the devices' presets name. None
    where moves are not planned: for blocking transfers, with as many devices as a machine can have, and with any device
    that is a CPU, has no preset, or has the host's name."""
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
    """Append the host's memory to the machine's devices."""
    assert not machine.devices[-1].is_host
    memory = Device(name=HOST_NAME, kind=HOST_KIND, memory_bytes=host.memory_bytes, launches_itself=True)
    links = tuple((*row, there) for row, there in zip(machine.links, host.there, strict=True))
    return replace(machine, devices=(*machine.devices, memory), links=(*links, (*host.back, Link())))


def parted(machine: Machine) -> tuple[Machine, HostMemory | None]:
    """Split a machine into the machine without the host's memory, and that memory, or None."""
    if not machine.devices[-1].is_host:
        return machine, None
    host = HostMemory(
        there=tuple(row[-1] for row in machine.links[:-1]),
        back=machine.links[-1][:-1],
        memory_bytes=machine.devices[-1].memory_bytes,
    )
    links = tuple(row[:-1] for row in machine.links[:-1])
    return replace(machine, devices=machine.devices[:-1], links=links), host
