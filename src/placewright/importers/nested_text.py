"""Text with nested brackets and quotes, as in programs for XLA: its pieces, and the ends of brackets."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Nesting:
    """The brackets that nest. opening, closing: a character for each sort, in one order."""

    opening: str
    closing: str
    mark: re.Pattern[str] = field(init=False)

    def __post_init__(self) -> None:
        # an arrow is no bracket
        marks = rf'"(?:[^"\\]|\\.)*"|->|[{re.escape(self.opening)}]|[{re.escape(self.closing)}]|,'
        object.__setattr__(self, "mark", re.compile(marks, re.DOTALL))

    def pieces(self, text: str) -> Iterator[str]:
        """The pieces between commas outside all brackets and quotes."""
        depth = begin = 0
        for match in self.mark.finditer(text):
            mark = match[0]
            if mark in self.opening:
                depth += 1
            elif mark in self.closing:
                depth -= 1
            elif mark == "," and depth == 0:
                yield text[begin : match.start()].strip()
                begin = match.end()
        if last := text[begin:].strip():
            yield last

    def end_of_brackets(self, text: str, begin: int) -> int:
        """The position after the bracket that closes the one at `begin`; -1 where none does."""
        depth = 0
        for match in self.mark.finditer(text, begin):
            if match[0] in self.opening:
                depth += 1
            elif match[0] in self.closing:
                depth -= 1
                if depth == 0:
                    return match.end()
        return -1
