"""The second half of a sentence about a name nobody knows."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(name: str, known: Iterable[str], listed: Iterable[str] | None = None) -> str:
    """ "; did you mean X?" with the nearest known name; when none is near, those to list: all, unless given."""
    names = list(dict.fromkeys(known))
    nearest = difflib.get_close_matches(name[:200].lower(), names, n=1, cutoff=0.5)
    return f"; did you mean {nearest[0]}?" if nearest else f"; known are {', '.join(listed or names)}"
