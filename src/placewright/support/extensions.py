"""Modules of installed packages that add to placewright's tables: of methods, solvers of maps and policies."""

from __future__ import annotations

from functools import cache
from importlib.metadata import entry_points

from placewright.support.errors import InputError
from placewright.support.modules import FAILURES, described

#: Packages name such modules in this group of entry points; the laboratory (`placewright.lab`) is one.
ENTRY_POINTS = "placewright.extensions"


@cache
def load_extensions() -> None:
    """Imports them: where a name is asked for that nobody knows, so that planning does not wait for what it lacks.

    Raises InputError naming the entry point of one that cannot be imported.
    """
    for entry in entry_points(group=ENTRY_POINTS):
        try:
            entry.load()
        except FAILURES as error:
            raise InputError(f"entry point '{entry.name}' ({entry.value}) failed: {described(error)}") from error
