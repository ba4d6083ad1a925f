"""Memory limits as callers and users write them, in bytes by device.

It is "30GiB", "gpu0=30GiB,cpu=64GiB", accelerate's {0: "30GiB", "cpu": "64GiB"}, or a list with one entry per device.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeGuard

from placewright.machine import Machine
from placewright.machines.host import HostMemory, usual_host, with_host
from placewright.support.errors import InputError, did_you_mean, shown
from placewright.support.quantities import bytes_or_none

#: Which of two entries for one device counts: the one for its name, else for its kind, else for its family.
_NAME, _KIND, _FAMILY, _REST = 3, 2, 1, 0


def memory_limits(value: Any, machine: Machine) -> dict[str, int] | None:
    """Bytes by the name of each device that is limited; None where nothing is given.

    A size alone is for every device but CPUs, or for these where there are no others. Names are those of devices, of
    kinds ("h100") and of families ("gpu"); a number is a device's index, which must not be a CPU's, since other tools
    count accelerators alone.
    Raises InputError for sizes and names that are none, and for two sizes of one device.
    """
    if value is None:
        return None
    if _is_list(value):
        if len(value) != machine.num_devices:
            raise InputError(f"memory_limit has {len(value)} entries for {machine.num_devices} devices")
        found = zip((device.name for device in machine.devices), value, strict=True)
        return {name: size for name, entry in found if (size := bytes_or_none("memory_limit", entry)) is not None}
    chosen: dict[str, tuple[int, int]] = {}
    for key, size in _entries(value):
        for device, rank in _named(key, machine):
            before, other = chosen.get(device, (-1, size))
            if before == rank and other != size:
                raise InputError(f"memory_limit gives device '{device}' two sizes, {other} and {size} bytes")
            if rank > before:
                chosen[device] = rank, size
    return {device.name: chosen[device.name][1] for device in machine.devices if device.name in chosen}


def host_and_limits(value: Any, machine: Machine) -> tuple[HostMemory | None, dict[str, int] | None]:
    """The host's memory that a machine can move tensors to, and the limits of its own devices.

    What is given for "host" limits the former. Raises InputError as `memory_limits` does.
    """
    host = usual_host(machine)
    if host is None or _is_list(value):
        return host, memory_limits(value, machine)
    limited = memory_limits(value, with_host(machine, host))
    if limited is None:
        return host, None
    return replace(host, memory_bytes=limited.pop("host", None)), limited


def _is_list(value: Any) -> TypeGuard[Sequence[Any]]:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray | memoryview)


def _entries(value: Any) -> Iterable[tuple[str | int | None, int]]:
    """Pairs of a device, None for those that no other entry names, and bytes."""
    pairs: list[tuple[Any, Any]] = [(None, value)]
    if isinstance(value, Mapping):
        pairs = list(value.items())
    elif isinstance(value, str):
        split = [part.rpartition("=") for part in value.split(",")]
        pairs = [(name.strip() if equals else None, size) for name, equals, size in split]
    for key, size in pairs:
        is_name = isinstance(key, str | int) and not isinstance(key, bool) and key != ""
        if not is_name and (key is not None or isinstance(value, Mapping)):
            raise InputError(f"memory_limit names {key!r}; name devices, as in gpu0=30GiB")
        limit = bytes_or_none("memory_limit", size)
        if limit is not None:
            yield key, limit


def _named(key: str | int | None, machine: Machine) -> list[tuple[str, int]]:
    """Names of the devices that an entry is for, each with how precisely it names them."""
    devices = machine.devices
    if key is None:
        others = [device for device in devices if not (device.is_cpu or device.is_host)]
        others = others or [device for device in devices if not device.is_host]
        return [(device.name, _REST) for device in others]
    text = str(key)
    if text in [device.name for device in devices]:
        return [(text, _NAME)]
    if text.isdecimal() and int(text) < len(devices):
        device = devices[int(text)]
        if device.is_cpu:
            raise InputError(
                f"memory_limit names device {text}, which is {device.name}; write {device.name} if it is meant"
            )
        return [(device.name, _NAME)]
    for rank, names in ((_KIND, [d.kind for d in devices]), (_FAMILY, [d.family for d in devices])):
        if text in names:
            return [(device.name, rank) for device, name in zip(devices, names, strict=True) if name == text]
    known = did_you_mean(text, [name for device in devices for name in (device.name, device.kind)])
    raise InputError(f"memory_limit names '{shown(text)}', which machine '{shown(machine.name)}' does not have{known}")
