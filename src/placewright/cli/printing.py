"""Results on stdout: tables for people, JSON for programs."""

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
    """Switch the printing of results and progress off or on."""
    global _quiet
    _quiet = wanted
    return wanted


def is_watched() -> bool:
    """True if progress is to be shown: on a terminal, unless --quiet was given."""
    return sys.stderr.isatty() and not _quiet


def is_quiet() -> bool:
    return _quiet


def emit(text: str) -> None:
    """Print a result and flush it: if stdout cannot take it, OSError is raised here and not when the process ends."""
    if not _quiet:
        print(text, flush=True)


def print_parts(*parts: RenderableType | None) -> None:
    """Print tables and lines, without parts that are None."""
    from placewright.terminal.tables import drawn

    terminal = sys.stdout.isatty()
    # Nothing is cut when the output is not a terminal, since its reader has no limited width.
    roomy = not terminal and not os.environ.get("COLUMNS", "").isdecimal()
    # https://no-color.org: no escape codes at all, not even bold.
    styled = False if os.environ.get("NO_COLOR") else terminal or None
    emit(drawn(parts, styled=styled, roomy=roomy))


def print_found(facts: Any, parts: Iterable[RenderableType | None], as_json: bool) -> None:
    """Print a record of facts as JSON, or as tables."""
    if as_json:
        print_json(facts if isinstance(facts, dict) else asdict(facts))
    else:
        print_parts(*parts)


def print_json(value: dict[str, Any]) -> None:
    """Print one JSON object on stdout and nothing else."""
    emit(json.dumps(value, indent=2, allow_nan=False))
