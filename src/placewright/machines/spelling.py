"""What was probably meant by machines that are spelt in another tool's way: "h100x2", "h100,h100", "cuda:0,cuda:1"."""

from __future__ import annotations

import re
from itertools import groupby

from placewright.machines.detect import list_gpus
from placewright.machines.presets import list_presets
from placewright.support.errors import InputError, shown

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
