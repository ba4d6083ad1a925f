"""Topologies: the matrix of links of a machine, built from a rule per pair of devices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from placewright.machine import DEFAULT_LAUNCH, MAX_DEVICES, Device, LaunchMode, Link, Machine, TransferModel
from placewright.machines.presets import DevicePreset, find_link
from placewright.support.errors import InputError, shown

LinkMatrix = tuple[tuple[Link, ...], ...]
#: The link between two devices that are directly connected.
LinkRule = Callable[[DevicePreset, DevicePreset], Link]


def check_count(count: int, machine_name: str) -> None:
    """Raise InputError, before anything is built, for more devices than a machine may have."""
    if count > MAX_DEVICES:
        raise InputError(
            f"machine '{shown(machine_name)}' has {shown(count)} devices; placewright plans for 1 to {MAX_DEVICES}"
        )


def number_devices(presets: Sequence[DevicePreset]) -> list[Device]:
    """Build the devices of the presets, named by family and number: cpu0, gpu0, gpu1."""
    counts: dict[str, int] = {}
    devices = []
    for preset in presets:
        number = counts.setdefault(preset.family, 0)
        counts[preset.family] += 1
        devices.append(replace(preset.device, name=f"{preset.family}{number}"))
    return devices


def assemble(
    name: str,
    devices: Sequence[Device],
    links: LinkMatrix,
    transfers: TransferModel | None,
    launch: LaunchMode | None = None,
) -> Machine:
    """Build the machine. By default transfers are blocking, as in the papers, if all links are free, and otherwise
    overlapped; and one host thread launches."""
    pairs = [link for i, row in enumerate(links) for j, link in enumerate(row) if i != j]
    free = bool(pairs) and all(link == Link() for link in pairs)
    model: TransferModel = transfers or ("blocking" if free else "overlapped")
    return Machine(
        name=name, devices=tuple(devices), links=links, transfer_model=model, launch=launch or DEFAULT_LAUNCH
    )


def default_link(first: DevicePreset, second: DevicePreset) -> Link:
    """Return the usual link between two devices.

    Two devices with the same link join directly. A CPU uses the other device's PCI Express. Devices with different
    links (two NVLink generations, a module and a card) do not plug into each other, so they use the slower PCI Express
    of the two.
    """
    if first.link and first.link == second.link:
        return find_link(first.link).link
    if "cpu" in (first.family, second.family):
        return _host_link(second if first.family == "cpu" else first)
    return slower(_host_link(first), _host_link(second))


def named_link(name: str) -> LinkRule:
    """Return a rule that joins every pair by the named link; "nvlink" is the generation of each device.

    Raises InputError for an unknown name; the rule raises it for a device without NVLink. CPUs have none, but their
    pairs keep PCI Express.
    """
    if name.lower() == "nvlink":
        return _nvlink
    preset = find_link(name)
    if not preset.name.startswith("nvlink"):
        return lambda first, second: preset.link
    return lambda first, second: default_link(first, second) if "cpu" in (first.family, second.family) else preset.link


def slower(first: Link, second: Link) -> Link:
    """Return the link with less bandwidth; with equal bandwidths, the one with more latency."""
    return min(first, second, key=lambda link: (link.bandwidth_bytes_per_s or float("inf"), -link.latency_ns))


def all_to_all(presets: Sequence[DevicePreset], rule: LinkRule) -> LinkMatrix:
    """Give every pair a link of its own."""
    return tuple(
        tuple(Link() if i == j else rule(first, second) for j, second in enumerate(presets))
        for i, first in enumerate(presets)
    )


def ring(presets: Sequence[DevicePreset], rule: LinkRule) -> LinkMatrix:
    """Join neighbours in the given order, and the last to the first; transfers between others pass through those
    between."""
    count = len(presets)
    return tuple(
        tuple(_in_a_row([presets[k % count] for k in _shorter_way(i, j, count)], rule) for j in range(count))
        for i in range(count)
    )


def through_host(presets: Sequence[DevicePreset], rule: LinkRule | None) -> LinkMatrix:
    """Route every transfer up to the host's memory and down again; to or from a CPU only one of the two."""

    def hop(device: DevicePreset) -> list[Link]:
        if device.family == "cpu":
            return []
        return [rule(device, device) if rule else _host_link(device)]

    def path(first: DevicePreset, second: DevicePreset) -> Link:
        hops = hop(first) + hop(second)
        return chain(hops) if hops else default_link(first, second)

    return all_to_all(presets, path)


@dataclass(frozen=True, kw_only=True)
class Nodes:
    """Groups of devices: `node_of[device]`; one rule inside a node, another between nodes."""

    node_of: tuple[int, ...]
    intra: LinkRule
    inter: LinkRule

    def links(self, presets: Sequence[DevicePreset]) -> LinkMatrix:
        inside, between = all_to_all(presets, self.intra), all_to_all(presets, self.inter)
        count = len(presets)
        return tuple(
            tuple((inside if self.node_of[i] == self.node_of[j] else between)[i][j] for j in range(count))
            for i in range(count)
        )


def chain(links: Sequence[Link]) -> Link:
    """Concatenate links over which the whole tensor passes one after the other: times add up."""
    per_byte = sum(1 / link.bandwidth_bytes_per_s for link in links if link.bandwidth_bytes_per_s is not None)
    return Link(
        bandwidth_bytes_per_s=1 / per_byte if per_byte else None,
        latency_ns=sum(link.latency_ns for link in links),
    )


def _in_a_row(stations: Sequence[DevicePreset], rule: LinkRule) -> Link:
    hops = [rule(first, second) for first, second in pairwise(stations)]
    return hops[0] if len(hops) == 1 else chain(hops)


def _shorter_way(start: int, end: int, count: int) -> range:
    """List positions from start to end the shorter way around a circle; modulo count they are devices."""
    forward, backward = (end - start) % count, (start - end) % count
    return range(start, start + forward + 1) if forward <= backward else range(start, start - backward - 1, -1)


def _host_link(preset: DevicePreset) -> Link:
    name = preset.pcie or preset.link
    if not name:
        raise InputError(f"device '{preset.name}' has no known link; name one under [links]")
    return find_link(name).link


def _nvlink(first: DevicePreset, second: DevicePreset) -> Link:
    if "cpu" in (first.family, second.family):
        return default_link(first, second)
    for preset in (first, second):
        if not preset.nvlink:
            raise InputError(
                f"device '{preset.name}' has no NVLink; without a link named it uses {preset.link or 'none'}"
            )
    return slower(find_link(first.nvlink).link, find_link(second.nvlink).link)


def only(machine: Machine, device: int) -> Machine:
    """Return the machine with only one of its devices."""
    return replace(machine, devices=(machine.devices[device],), links=((machine.links[device][device],),))
