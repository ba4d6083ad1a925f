"""CSV files, which spreadsheets open: a name that begins like a formula must not be run as one."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from unicodedata import normalize

#: First characters of a formula, and the apostrophe itself, so that every name can be recovered.
_BEGINNINGS = frozenset("=+-@'")


def csv_bytes(columns: Sequence[str], rows: Iterable[Sequence[int | str]]) -> bytes:
    """Write a table as UTF-8 CSV (RFC 4180), its texts guarded."""
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(columns)
    writer.writerows([guarded(cell) if isinstance(cell, str) else cell for cell in row] for row in rows)
    return text.getvalue().encode("utf-8", "backslashreplace")


def guarded(name: str) -> str:
    """Return the name as a cell: one that begins like a formula gets an apostrophe in front, which marks text in
    spreadsheets."""
    return f"'{name}" if _begins_like_a_formula(name) else name


def unguarded(cell: str) -> str:
    """Recover the name from a cell that `guarded` made."""
    return cell[1:] if cell.startswith("'") and _begins_like_a_formula(cell[1:]) else cell


def _begins_like_a_formula(name: str) -> bool:
    """True if spreadsheets would read the name as a formula. They pass over white space and control characters, and
    read full-width characters as ordinary ones."""
    if name and not name[0].isprintable():
        return True
    return normalize("NFKC", name.lstrip()[:1]) in _BEGINNINGS
