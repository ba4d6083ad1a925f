"""CSV files, which spreadsheets open: a name that begins like a formula must not be run as one."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from unicodedata import normalize

#: How a formula may begin; and the mark itself, so that every name can be given back.
_BEGINNINGS = frozenset("=+-@'")


def csv_bytes(columns: Sequence[str], rows: Iterable[Sequence[int | str]]) -> bytes:
    """A table as UTF-8 CSV (RFC 4180), its texts guarded."""
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(columns)
    writer.writerows([guarded(cell) if isinstance(cell, str) else cell for cell in row] for row in rows)
    return text.getvalue().encode("utf-8", "backslashreplace")


def guarded(name: str) -> str:
    """The name as a cell: after an apostrophe, which spreadsheets take for "this is text", where it begins like a
    formula."""
    return f"'{name}" if _begins_like_a_formula(name) else name


def unguarded(cell: str) -> str:
    """The name that `guarded` made the cell of."""
    return cell[1:] if cell.startswith("'") and _begins_like_a_formula(cell[1:]) else cell


def _begins_like_a_formula(name: str) -> bool:
    """Spreadsheets pass over white space and control characters, and read full-width characters as ordinary ones."""
    if name and not name[0].isprintable():
        return True
    return normalize("NFKC", name.lstrip()[:1]) in _BEGINNINGS
