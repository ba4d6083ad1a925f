"""Machines in one word: "2xh100", "cpu+2xk80", "4xa100-80g/nvlink", "4xh100@graphs", "2xideal/free".

specification = group ("+" group)* ["/" link] ["@" launch];  group = [count "x"] device;  device and link are names of
presets, launch says who launches work.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import cast, get_args

from placewright.machine import LaunchMode, Machine
from placewright.machines.devices_file import read_machine_file
from placewright.machines.presets import DevicePreset, find_preset
from placewright.machines.spelling import check_numbered, meant
from placewright.machines.topology import all_to_all, assemble, check_count, default_link, named_link, number_devices
from placewright.support.errors import InputError, shown
from placewright.support.suggestion import did_you_mean

_GROUP = re.compile(r"(?:([0-9]{1,9})x)?([^\s+/@]+)", re.IGNORECASE)


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
    return count, find_preset(match[2])
