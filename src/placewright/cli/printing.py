"""Results on stdout: tables where people read, JSON where programs do."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import RenderableType


_quiet = False


def be_quiet(wanted: bool) -> bool:
    """From now on results and progress are not printed, or they are."""
    global _quiet
    _quiet = wanted
    return wanted


def is_watched() -> bool:
    """Whether progress is to be shown: on a terminal, unless --quiet was given."""
    return sys.stderr.isatty() and not _quiet


def is_quiet() -> bool:
    return _quiet


def emit(text: str) -> None:
    """Prints a result, whole: what stdout cannot take raises OSError here and not when the process ends."""
    if not _quiet:
        print(text, flush=True)


def print_parts(*parts: RenderableType | None) -> None:
    """Prints tables and lines, leaving out what is None."""
    from placewright.terminal.tables import drawn

    terminal = sys.stdout.isatty()
    # Outside of a terminal nothing is cut: what reads it has no edge.
    roomy = not terminal and not os.environ.get("COLUMNS", "").isdecimal()
    # https://no-color.org: no codes at all, not even bold ones.
    styled = False if os.environ.get("NO_COLOR") else terminal or None
    emit(drawn(parts, styled=styled, roomy=roomy))


def print_found(facts: Any, parts: Iterable[RenderableType | None], as_json: bool) -> None:
    """Prints a record of facts as JSON, or the tables of them."""
    if as_json:
        print_json(facts if isinstance(facts, dict) else asdict(facts))
    else:
        print_parts(*parts)


def print_json(value: dict[str, Any]) -> None:
    """One JSON object on stdout and nothing else."""
    emit(json.dumps(value, indent=2, allow_nan=False))
