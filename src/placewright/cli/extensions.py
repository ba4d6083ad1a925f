"""Commands that extensions add; the laboratory's are `train`, `dataset`, `bench` and `policies`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Any

import typer

from placewright.support.errors import InputError
from placewright.support.modules import FAILURES, described

#: Packages name a record of their commands in this group of entry points.
ENTRY_POINTS = "placewright.commands"


@dataclass(frozen=True, kw_only=True)
class Commands:
    """add_to: puts them into the table of commands. examples: of each, what to type and what it does. types: what each
    prints with --json, by command; made when asked for."""

    add_to: Callable[[typer.Typer], None]
    examples: Mapping[str, Mapping[str, str]]
    types: Callable[[], Mapping[str, Any]]


def all_commands() -> Iterator[Commands]:
    """Those of all extensions. Raises InputError naming the entry point of one that cannot be imported."""
    for entry in entry_points(group=ENTRY_POINTS):
        try:
            yield entry.load()
        except FAILURES as error:
            raise InputError(f"entry point '{entry.name}' ({entry.value}) failed: {described(error)}") from error


def types() -> dict[str, Any]:
    """What their commands print with --json, as types that JSON Schemas are made of."""
    return {command: kind for commands in all_commands() for command, kind in commands.types().items()}
