"""Extensions of the command line: commands such as the laboratory's `train`, `dataset`, `bench`, `policies` and `map`,
and files, such as memory maps, that other commands read."""

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
    """A kind of file that commands accept instead of plans; each function gets the file.

    name: the name in the file (`kind_in`). check: also gets the model and its open dimensions. targets: functions that
    return the content of an export, by the name of the target.
    """

    name: str
    show: Callable[[Path], Found]
    explain: Callable[[Path], Found]
    check: Callable[[Path, str, Mapping[str, int]], tuple[Check, Iterable[RenderableType | None]]]
    targets: Mapping[str, Callable[[Path], bytes]]

    @property
    def title(self) -> str:
        """The name of the kind in sentences."""
        return self.name.replace("-", " ")


@dataclass(frozen=True, kw_only=True)
class Commands:
    """The commands of an extension.

    add_to: adds them to the table of commands. examples: for each command, example command lines and their
    explanations. types: by command, the type of its --json output; for placewright's own commands, the types of further
    outputs. kinds: kinds of files that these accept. types and kinds are functions, called only when needed.
    """

    add_to: Callable[[typer.Typer], None]
    examples: Mapping[str, Mapping[str, str]]
    types: Callable[[], Mapping[str, Any]]
    kinds: Callable[[], Iterable[FileKind]] = tuple


def all_commands() -> Iterator[Commands]:
    """Yield the commands of all extensions. An extension that cannot be imported, or is not a `Commands`, is named on
    stderr: the others work without it."""
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
    """Yield pairs of command and the type of an extension's --json output, from which JSON Schemas are made."""
    for commands in all_commands():
        yield from commands.types().items()


def kind_of(path: Path) -> FileKind | None:
    """Find the kind of a file; None for a plan or an unknown kind. Raises InputError when the file cannot be read."""
    from placewright.importers.json_graph import unpack
    from placewright.support.files import read_bytes
    from placewright.support.records import kind_in

    name = kind_in(unpack(read_bytes(path), str(path)))
    if name is None:
        return None
    return next((kind for commands in all_commands() for kind in commands.kinds() if kind.name == name), None)
