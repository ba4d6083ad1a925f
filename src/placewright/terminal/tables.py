"""Tables for terminals and pipes: no lines drawn, at most 100 columns, colours only on a terminal."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from io import StringIO

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from placewright.support.errors import printable

MAX_COLUMNS = 100
MIN_COLUMNS = 60
_UNBOUNDED = 10_000
#: Columns of space between two columns.
_GAP = 2
#: The length to which names are shortened before the names of columns are broken into two lines.
_CUT = 24
#: The least width of a column whose text is wrapped.
_LEAST = 12
#: First characters of the names of text columns.
_LEFT = ("<", "~")

Cell = str | Text


def width() -> int:
    """Return the number of columns to use: those of the terminal, within limits; in a pipe the maximum."""
    fallback = 80 if sys.stdout.isatty() else MAX_COLUMNS
    return max(MIN_COLUMNS, min(MAX_COLUMNS, shutil.get_terminal_size((fallback, 24)).columns))


def drawn(parts: Iterable[RenderableType | None], *, styled: bool | None = False, roomy: bool = False) -> str:
    """Render tables and lines as text, without parts that are None. A plain string is not wrapped, so that paths can be
    copied.

    styled: with colour codes; None to decide by the environment. roomy: tables and headings take all the width they
    need.
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
    """Build a table. Columns named "<Device" are left-aligned and shortened where there is no room; those named "~How"
    are wrapped; the others, numbers, are never cut. Names of columns are broken into two lines if they do not all fit
    on one.

    The row of column names is left out when all are empty.
    """
    cells = [[printable(each) if isinstance(each, str) else each for each in row] for row in rows]
    return _grid(columns, _names(columns, cells), cells)


def parted_table(
    columns: Sequence[str], parts: Iterable[tuple[str, Sequence[Sequence[str]]]]
) -> Iterator[Table | Text]:
    """Yield one table in parts of equal width, each under its heading."""
    shown = [(name, [[printable(cell) for cell in row] for row in rows]) for name, rows in parts if rows]
    every = [row for _, rows in shown for row in rows]
    names = _names(columns, every)
    widths = [_widest([*name.split("\n"), *cells]) for name, *cells in zip(names, *every, strict=True)]
    over = sum(widths) + _GAP * (len(widths) - 1) - width()
    wrapped = [index for index, column in enumerate(columns) if column.startswith("~")]
    if wrapped and over > 0:
        widths[wrapped[0]] = max(_LEAST, widths[wrapped[0]] - over)
    for number, (name, rows) in enumerate(shown):
        if name:
            yield line(name, "dim")
        yield _grid(columns, names, rows, widths, is_named=number == 0)


def _grid(
    columns: Sequence[str],
    names: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    widths: Sequence[int] | None = None,
    *,
    is_named: bool = True,
) -> Table:
    shown = is_named and any(names)
    grid = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="dim", show_header=shown)
    for index, (column, name) in enumerate(zip(columns, names, strict=True)):
        left = column[:1] in _LEFT
        own = None if widths is None else widths[index]
        grid.add_column(name, justify="left" if left else "right", no_wrap=not left, width=own)
    for row in rows:
        pairs = zip(columns, row, strict=True)
        grid.add_row(*(Text(str(cell)) if column[:1] == "~" else _on_one_line(cell) for column, cell in pairs))
    return grid


def _names(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> list[str]:
    names = [name[name[:1] in _LEFT :] for name in columns]
    widest = [_widest(cells) for cells in zip(*rows, strict=True)] or [0] * len(names)
    whole = [max(cells, len(name)) for cells, name in zip(widest, names, strict=True)]
    needed = [min(each, _CUT) if column[:1] == "<" else each for column, each in zip(columns, whole, strict=True)]
    if sum(needed) + _GAP * (len(needed) - 1) <= width() or not any(names):
        return names
    broken = [_on_two_lines(name, cells) for cells, name in zip(widest, names, strict=True)]
    return broken if any(not name.startswith("\n") for name in broken) else names


def _widest(cells: Iterable[Cell]) -> int:
    return max(map(len, cells), default=0)


def _on_two_lines(name: str, room: int) -> str:
    """Break a name into two lines where the longer one is shortest; a name that has room goes on the second line
    whole."""
    places = [place for place, character in enumerate(name) if character == " " and len(name) > room]
    best = min(places, key=lambda place: max(place, len(name) - place - 1), default=-1)
    return f"{name[: max(best, 0)]}\n{name[best + 1 :]}"


def _on_one_line(cell: Cell) -> Text:
    text = Text(cell) if isinstance(cell, str) else cell.copy()
    text.no_wrap, text.overflow = True, "ellipsis"
    return text
