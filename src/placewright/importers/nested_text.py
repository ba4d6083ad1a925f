"""Text with nested brackets and quotes, as in programs for XLA: its pieces, and the ends of brackets."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Nesting:
    """The brackets that nest. opening, closing: one character per kind of bracket, in the same order."""

    opening: str
    closing: str
    mark: re.Pattern[str] = field(init=False)

    def __post_init__(self) -> None:
        # an arrow is no bracket
        marks = rf'"(?:[^"\\]|\\.)*"|->|[{re.escape(self.opening + self.closing)}]|,| : '
        object.__setattr__(self, "mark", re.compile(marks, re.DOTALL))

    def _marks(self, text: str, begin: int = 0) -> Iterator[tuple[re.Match[str], int]]:
        """Brackets, commas and colons between spaces outside quotes, each with the depth after it."""
        depth = 0
        for match in self.mark.finditer(text, begin):
            depth += (match[0] in self.opening) - (match[0] in self.closing)
            yield match, depth

    def pieces(self, text: str) -> Iterator[str]:
        """The pieces between commas outside all brackets and quotes."""
        begin = 0
        for match, depth in self._marks(text):
            if match[0] == "," and depth == 0:
                yield text[begin : match.start()].strip()
                begin = match.end()
        if last := text[begin:].strip():
            yield last

    def end_of_brackets(self, text: str, begin: int) -> int:
        """The position after the bracket that closes the one at `begin`; -1 where none does."""
        marks = self._marks(text, begin)
        return next((match.end() for match, depth in marks if depth == 0 and match[0] in self.closing), -1)

    def around_last_colon(self, text: str) -> tuple[str, str]:
        """The texts before and after the last colon between spaces outside all brackets and quotes."""
        colons = [match for match, depth in self._marks(text) if depth == 0 and match[0] == " : "]
        return (text[: colons[-1].start()], text[colons[-1].end() :]) if colons else (text, "")
