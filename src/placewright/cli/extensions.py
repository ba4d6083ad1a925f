"""What extensions add to the command line: the laboratory `train`, `dataset`, `bench`, `policies`, `map`, and maps to
what other commands read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import typer

from placewright.cli.exit_codes import complain
from placewright.support.modules import FAILURES, described

if TYPE_CHECKING:
    from rich.console import RenderableType

    from placewright.api.questions import Check

#: A record of facts, and the tables of them.
Found: TypeAlias = "tuple[Any, Iterable[RenderableType | None]]"

#: Packages name a record of their commands in this group of entry points.
ENTRY_POINTS = "placewright.commands"


@dataclass(frozen=True, kw_only=True)
class FileKind:
    """A kind of file that commands take where they take plans: each is given the file.

    name: as the file says it (`kind_in`). check: also the model and its
    open dimensions. targets: by name, the content of an export.
    """

    name: str
    show: Callable[[Path], Found]
    explain: Callable[[Path], Found]
    check: Callable[[Path, str, Mapping[str, int]], tuple[Check, Iterable[RenderableType | None]]]
    targets: Mapping[str, Callable[[Path], bytes]]

    @property
    def title(self) -> str:
        """What sentences call it."""
        return self.name.replace("-", " ")


@dataclass(frozen=True, kw_only=True)
class Commands:
    """add_to: puts them into the table of commands. examples: of each, what to type and what it does. types: what each
    prints with --json, by command, of placewright's own beside what those print of plans. kinds: of files that those
    take. Both are made when asked for."""

    add_to: Callable[[typer.Typer], None]
    examples: Mapping[str, Mapping[str, str]]
    types: Callable[[], Mapping[str, Any]]
    kinds: Callable[[], Iterable[FileKind]] = tuple


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


def types() -> Iterator[tuple[str, Any]]:
    """By command what extensions print with --json, as types that JSON Schemas are made of."""
    for commands in all_commands():
        yield from commands.types().items()


def kind_of(path: Path) -> FileKind | None:
    """None for a plan, and for a file of no kind that is known. Raises InputError when the file cannot be read."""
    from placewright.importers.json_graph import unpack
    from placewright.support.files import read_bytes
    from placewright.support.records import kind_in

    name = kind_in(unpack(read_bytes(path), str(path)))
    if name is None:
        return None
    return next((kind for commands in all_commands() for kind in commands.kinds() if kind.name == name), None)
