"""Names in CSV files, which spreadsheets open: what begins like a formula must not be run as one."""

from __future__ import annotations

from unicodedata import normalize

#: How a formula may begin; and the mark itself, so that every name can be given back.
_BEGINNINGS = frozenset("=+-@'")


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
