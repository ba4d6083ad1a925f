"""Machines in one word: "2xh100", "cpu+2xk80", "4xa100-80g/nvlink", "4xh100@graphs", "2xideal/free", "rtx3090:12GiB".

specification = group ("+" group)* ["/" link] ["@" launch];  group = [count "x"] device [":" memory];  device and link
are names of presets, memory is what it has instead, launch says who launches work.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import cast, get_args

from placewright.machine import LaunchMode, Machine
from placewright.machines.detect import list_gpus
from placewright.machines.devices_file import read_machine_file
from placewright.machines.host import parted
from placewright.machines.presets import DevicePreset, find_preset, list_presets
from placewright.machines.topology import all_to_all, assemble, check_count, default_link, named_link, number_devices
from placewright.support.errors import InputError, did_you_mean, shown
from placewright.support.quantities import parse_bytes

#: A count, a device, and its memory with its unit: "h100:4" would rather be four.
_GROUP = re.compile(r"(?:([0-9]{1,9})x)?([^\s+/@]+?)(?::([0-9.]+[kmgt]i?b))?", re.IGNORECASE)


def load_machine(specification: str | Path) -> Machine:
    """Make a machine from its name or read it from a file.

    Parameters
    ----------
    specification
        A name like "2xh100", "cpu+2xk80", "4xa100-80g/nvlink" or "4xh100@graphs", or a file: .toml, or .json as
        `placewright devices show -o` writes it.

    Raises
    ------
    InputError
        For a name that is no preset (with the nearest one), a malformed text or an unusable file.
    """
    if isinstance(specification, Path) or specification.endswith((".toml", ".json")):
        return read_machine_file(Path(specification))
    return parse_specification(specification)


def as_machine(devices: Machine | str | Path | Sequence[str]) -> Machine:
    """The machine of whatever `plan` accepts as devices, without the host's memory that a plan's machine may have."""
    if isinstance(devices, Machine):
        return parted(devices)[0]
    if isinstance(devices, str | Path):
        return load_machine(devices)
    if isinstance(devices, list | tuple) and devices and all(isinstance(device, str) for device in devices):
        return load_machine("+".join(devices))
    raise InputError(
        f"devices is {devices!r}; it must be a Machine, a name like '2xh100', a list of names, or the path of a "
        "devices.toml"
    )


def parse_specification(text: str) -> Machine:
    """The machine of a specification; see the module for its grammar. Raises InputError."""
    name = text.strip().lower()
    place, at, launch = name.partition("@")
    if at and launch not in get_args(LaunchMode):
        known = did_you_mean(launch, get_args(LaunchMode))
        raise InputError(f"machine '{shown(text)}' has the unknown way to launch '{shown(launch)}'{known}")
    devices_part, slash, link = place.partition("/")
    if slash and not link:
        raise InputError(f"machine '{shown(text)}' ends in '/' without a link; write it like 4xa100/nvlink")
    groups = _parse_groups(devices_part, text)
    check_count(sum(count for count, _ in groups), text)
    presets = [preset for count, preset in groups for _ in range(count)]
    if link.startswith("nvlink") and all(preset.family == "cpu" for preset in presets):
        raise InputError(f"machine '{shown(text)}' names NVLink, which no CPU has")
    links = all_to_all(presets, named_link(link) if link else default_link)
    # As people write sizes: rtx3090:12GiB.
    name = re.sub(r":[\d.]+[kmgt]i?b", lambda size: size[0].upper().replace("I", "i"), name)
    return assemble(name, number_devices(presets), links, None, cast(LaunchMode, launch) if at else None)


def _parse_groups(devices: str, text: str) -> list[tuple[int, DevicePreset]]:
    check_numbered(devices)
    try:
        return [_parse_group(group, text) for group in devices.split("+")]
    except InputError:
        if (better := meant(devices)) is None:
            raise
        rest = text.strip().lower().removeprefix(devices)
        raise InputError(f"machine '{shown(text)}' is not understood; did you mean {better}{rest}?") from None


def _parse_group(group: str, text: str) -> tuple[int, DevicePreset]:
    match = _GROUP.fullmatch(group.strip())
    if match is None:
        raise InputError(
            f"machine '{shown(text)}' is not understood; write it like 2xh100, cpu+2xk80 or 4xa100-80g/nvlink"
        )
    count = int(match[1] or 1)
    if count == 0:
        raise InputError(f"machine '{shown(text)}' asks for 0 of '{shown(match[2])}'")
    preset = find_preset(match[2])
    if match[3]:
        preset = replace(preset, device=replace(preset.device, memory_bytes=parse_bytes(match[3])))
    return count, preset


_LISTED = re.compile(r"[,+]")
_COUNTED = re.compile(r"([1-9][0-9]{0,2})\s*[x*]?\s*(\S+)")
_TIMES = re.compile(r"(\S+?)\s*[x*:]\s*([1-9][0-9]{0,2})")
#: How programs number the devices that they happen to run on.
_NUMBERED = re.compile(r"(?:cuda|gpu|hip|mps)(?::([0-9]{1,3}))?")


def check_numbered(text: str) -> None:
    """Raises InputError for "cuda:0,cuda:1": that says how many devices there are, and not what they are."""
    numbers = [_NUMBERED.fullmatch(part.strip()) for part in _LISTED.split(text)]
    wanted = [int(match[1] or 0) for match in numbers if match is not None]
    if wanted:
        raise InputError(
            f"machine '{shown(text)}' does not say what the devices are; write {_spelt(wanted) or 'it like 2xh100'}"
        )


def _spelt(wanted: list[int]) -> str:
    """The devices of these numbers as they are here, by name; empty where they are not all here."""
    try:
        names = [preset.name for preset in list_gpus()]
    except InputError:
        return ""
    if max(wanted) >= len(names):
        return ""
    return "+".join(_counted(len(list(same)), name) for name, same in groupby(names[number] for number in wanted))


def meant(text: str) -> str | None:
    """The specification that a text of devices most likely stands for; None where there is none."""
    parts = [_respelt(part.strip()) for part in _LISTED.split(text)]
    return None if None in parts else "+".join(part for part in parts if part is not None)


def _respelt(part: str) -> str | None:
    known = {name for preset in list_presets() for name in (preset.name, *preset.aliases)}
    if part in known:
        return part
    if (match := _TIMES.fullmatch(part)) and match[1] in known:
        return _counted(int(match[2]), match[1])
    if (match := _COUNTED.fullmatch(part)) and match[2] in known:
        return _counted(int(match[1]), match[2])
    return None


def _counted(count: int, name: str) -> str:
    return name if count == 1 else f"{count}x{name}"
