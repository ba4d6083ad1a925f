"""Tables for terminals and pipes: no lines drawn, at most 100 columns, colours only on a terminal."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Sequence
from io import StringIO

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from placewright.support.errors import printable

MAX_COLUMNS = 100
MIN_COLUMNS = 60
_UNBOUNDED = 10_000
#: Between two columns.
_GAP = 2
#: What the names of columns begin with that are text.
_LEFT = ("<", "~")

Cell = str | Text


def width() -> int:
    """Columns to use: those of the terminal, within limits; in a pipe as many as there may be."""
    fallback = 80 if sys.stdout.isatty() else MAX_COLUMNS
    return max(MIN_COLUMNS, min(MAX_COLUMNS, shutil.get_terminal_size((fallback, 24)).columns))


def drawn(parts: Iterable[RenderableType | None], *, styled: bool | None = False, roomy: bool = False) -> str:
    """Tables and lines as text, leaving out what is None. A plain string is not wrapped, so that paths can be copied.

    styled: with the codes of colours; None as the environment asks. roomy: tables and headings take all they need.
    """
    text = StringIO()
    # In a notebook rich would show each part at once, and leave the text empty.
    console = Console(
        file=text,
        force_terminal=styled,
        force_jupyter=False,
        width=width(),
        highlight=False,
        markup=False,
        emoji=False,
    )
    for part in parts:
        if part is not None:
            wide = roomy and (isinstance(part, Table) or getattr(part, "style", "") == "bold")
            console.width = _UNBOUNDED if wide else width()
            console.print(part, soft_wrap=isinstance(part, str))
    # Tables fill their lines with spaces, which only get in the way in a pipe.
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines())


def heading(text: str) -> Text:
    return Text(printable(text), style="bold")


def line(text: str, style: str = "") -> Text:
    return Text(printable(text), style=style)


def table(columns: Sequence[str], rows: Iterable[Sequence[Cell]]) -> Table:
    """Columns named "<Device" stand left and are shortened where there is no room, those named "~How" go on in the next
    line; the others, numbers, never are cut. Names of columns stand on two lines where all do not fit on one.

    The row of column names is left out when all are empty.
    """
    cells = [[printable(each) if isinstance(each, str) else each for each in row] for row in rows]
    names = _names(columns, cells)
    grid = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="dim", show_header=any(names))
    for column, name in zip(columns, names, strict=True):
        left = column[:1] in _LEFT
        grid.add_column(name, justify="left" if left else "right", no_wrap=not left)
    for row in cells:
        shown = zip(columns, row, strict=True)
        grid.add_row(*(cell if column[:1] == "~" else _on_one_line(cell) for column, cell in shown))
    return grid


def _names(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> list[str]:
    names = [name[name[:1] in _LEFT :] for name in columns]
    widest = [max(map(len, cells), default=0) for cells in zip(*rows, strict=True)] or [0] * len(names)
    needed = sum(max(cells, len(name)) for cells, name in zip(widest, names, strict=True)) + _GAP * (len(names) - 1)
    if needed <= width() or not any(names):
        return names
    return [_on_two_lines(name, cells) for cells, name in zip(widest, names, strict=True)]


def _on_two_lines(name: str, room: int) -> str:
    """Broken where the longer line is shortest, if there is no room for it on the second."""
    places = [place for place, character in enumerate(name) if character == " " and len(name) > room]
    best = min(places, key=lambda place: max(place, len(name) - place - 1), default=-1)
    return f"{name[: max(best, 0)]}\n{name[best + 1 :]}"


def _on_one_line(cell: Cell) -> Text:
    text = Text(cell) if isinstance(cell, str) else cell.copy()
    text.no_wrap, text.overflow = True, "ellipsis"
    return text
