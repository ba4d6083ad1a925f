"""Commands that extensions add; the laboratory's are `train`, `dataset`, `bench` and `policies`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Any

import typer

from placewright.cli.exit_codes import complain
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
    """Those of all extensions. One that cannot be imported, or is none, is named on stderr: no other needs it."""
    for entry in entry_points(group=ENTRY_POINTS):
        label = f"entry point '{entry.name}' ({entry.value})"
        try:
            found = entry.load()
        except FAILURES as error:
            complain(f"{label} failed: {described(error)}")
            continue
        if isinstance(found, Commands):
            yield found
        else:
            complain(f"{label} is no placewright.cli.extensions.Commands")


def types() -> dict[str, Any]:
    """What their commands print with --json, as types that JSON Schemas are made of."""
    return {command: kind for commands in all_commands() for command, kind in commands.types().items()}
