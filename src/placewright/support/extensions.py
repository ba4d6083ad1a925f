"""Modules of installed packages that add to placewright's tables: of methods, solvers of maps and policies."""

from __future__ import annotations

from importlib.metadata import entry_points

from placewright.support.modules import FAILURES, described

#: Packages name such modules in this group of entry points; the laboratory (`placewright.lab`) is one.
ENTRY_POINTS = "placewright.extensions"

_complaints: list[str] | None = None


def load_extensions() -> list[str]:
    """Imports them once: where a name is asked for that nobody knows, so that planning does not wait for what it lacks.

    Returns a sentence for each that cannot be imported, which concerns nobody who does not need it.
    """
    global _complaints
    if _complaints is None:
        _complaints = []  # an extension may ask for names while it is imported
        for entry in entry_points(group=ENTRY_POINTS):
            try:
                entry.load()
            except FAILURES as error:
                _complaints.append(f"entry point '{entry.name}' ({entry.value}) failed: {described(error)}")
    return _complaints


def lacking() -> str:
    """What to add to a sentence about a name that nobody knows: extensions that might have known it."""
    return "".join(f"; {complaint}" for complaint in load_extensions())
