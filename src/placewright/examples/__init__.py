"""Graphs of real networks that ship with the package."""

from __future__ import annotations

import difflib
from pathlib import Path

from placewright.support.errors import InputError

_SUFFIX = ".json.gz"
_FOLDER = Path(__file__).parent / "graphs"


def names() -> list[str]:
    """The examples' names, sorted."""
    return sorted(path.name.removesuffix(_SUFFIX) for path in _FOLDER.glob(f"*{_SUFFIX}"))


def path_of(name: str) -> Path:
    """The path of an example's graph file. Raises InputError listing the known ones and suggesting the nearest."""
    known = names()
    if name in known:
        return _FOLDER / f"{name}{_SUFFIX}"
    nearest = difflib.get_close_matches(name, known, n=1)
    hint = f"; did you mean '{nearest[0]}'?" if nearest else ""
    raise InputError(f"there is no example '{name}'{hint} (known: {', '.join(known) or 'none'})")
