"""Exit codes of the commands, which are part of the interface, the sentence on stderr that goes with one,
and Ctrl-C while a search runs."""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Sequence
from types import FrameType, TracebackType

BAD_INPUT = 2
NOTHING_FEASIBLE = 3
INTERRUPTED = 128 + signal.SIGINT

#: A sentence longer than this names only the first few members of its lists.
_LONG_SENTENCE = 300
_NUM_NAMED = 3
_LIST = re.compile(r"[^\s,;()][^,;()]*(?:, [^,;()]+){4,}")


def complain(sentence: str) -> None:
    """One line on stderr; in a long one lists are cut to their first members."""
    from placewright.support.errors import printable

    text = printable(sentence)
    if len(text) > _LONG_SENTENCE:
        text = _LIST.sub(lambda found: _first_of(found.group().split(", ")), text)
    print(f"placewright: error: {text}", file=sys.stderr)


def _first_of(members: Sequence[str]) -> str:
    return f"{', '.join(members[:_NUM_NAMED])} and {len(members) - _NUM_NAMED:,} more"


class Interruption:
    """A context in which SIGINT is noted; called, it says whether one came."""

    def __init__(self) -> None:
        self._came = False

    def __call__(self) -> bool:
        return self._came

    def __enter__(self) -> Interruption:
        self._before = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        signal.signal(signal.SIGINT, self._before)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self._came:
            raise KeyboardInterrupt
        self._came = True
