"""Exit codes of the commands, which are part of the interface, and the error sentence on stderr."""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Sequence

BAD_INPUT = 2
NOTHING_FEASIBLE = 3
INTERRUPTED = 128 + signal.SIGINT

#: A sentence longer than this names only the first few members of its lists.
_LONG_SENTENCE = 300
_NUM_NAMED = 3
_LIST = re.compile(r"[^\s,;()][^,;()]*(?:, [^,;()]+){4,}")


def complain(sentence: str) -> None:
    """Print one line on stderr; in a long one, lists are cut to their first members."""
    from placewright.support.errors import printable

    text = printable(sentence)
    if len(text) > _LONG_SENTENCE:
        text = _LIST.sub(lambda found: _first_of(found.group().split(", ")), text)
    print(f"placewright: error: {text}", file=sys.stderr)


def _first_of(members: Sequence[str]) -> str:
    return f"{', '.join(members[:_NUM_NAMED])} and {len(members) - _NUM_NAMED:,} more"
