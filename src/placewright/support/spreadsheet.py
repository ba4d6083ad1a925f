"""Names in CSV files, which spreadsheets open: what begins like a formula must not be run as one."""

from __future__ import annotations

#: How a formula may begin; and the mark itself, so that every name can be given back.
_BEGINNINGS = ("=", "+", "-", "@", "\t", "\r", "'")


def guarded(name: str) -> str:
    """The name as a cell: after an apostrophe, which spreadsheets take for "this is text", where it begins like a
    formula."""
    return f"'{name}" if name.startswith(_BEGINNINGS) else name


def unguarded(cell: str) -> str:
    """The name that `guarded` made the cell of."""
    return cell[1:] if cell.startswith("'") and cell[1:].startswith(_BEGINNINGS) else cell
