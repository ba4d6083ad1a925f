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
    """Columns named "<Device" stand left and are shortened where there is no room; the others, numbers, never are.

    The row of column names is left out when all are empty.
    """
    named = any(name.removeprefix("<") for name in columns)
    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim", show_header=named)
    for name in columns:
        left = name.startswith("<")
        grid.add_column(name.removeprefix("<"), justify="left" if left else "right", no_wrap=not left)
    for row in rows:
        grid.add_row(*(_on_one_line(cell) for cell in row))
    return grid


def _on_one_line(cell: Cell) -> Text:
    text = Text(printable(cell)) if isinstance(cell, str) else cell.copy()
    text.no_wrap, text.overflow = True, "ellipsis"
    return text
