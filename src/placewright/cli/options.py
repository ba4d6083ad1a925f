"""Options that several commands share, and parsers for their values."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, cast, get_args

import typer

from placewright.cli.printing import be_quiet
from placewright.importers.formats import known_suffixes
from placewright.problem.objective import ControlMode, Objective
from placewright.support.errors import InputError, did_you_mean
from placewright.support.quantities import QUANTITY_LIMIT

Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help=f"A file ({known_suffixes()}), FILE.py:FUNCTION, SET.graphs.gz:NAME or example:NAME"
        " (`placewright examples`).",
        show_default=False,
    ),
]
PlanFile = Annotated[Path, typer.Argument(metavar="PLAN", help="A plan file.", show_default=False)]
Training = Annotated[
    bool, typer.Option("--training", help="Of FILE.py:FUNCTION a training step: forward, backward and optimizer.")
]
Dims = Annotated[
    list[str] | None,
    typer.Option("--dim", metavar="NAME=SIZE", help="Size of an open dimension of an ONNX model; repeatable."),
]
Measured = Annotated[Path | None, typer.Option(metavar="CSV", help="Measured op times, which override the cost model.")]
Keep = Annotated[
    list[str] | None,
    typer.Option(metavar="GLOB", help="Ops or modules that run once: 'layers.0.*', or '*' for all; repeatable."),
]
Plugins = Annotated[
    list[Path] | None,
    typer.Option(
        "--plugin", metavar="FILE.py", help="A file that registers own methods (docs/own-methods.md); repeatable."
    ),
]
Evaluations = Annotated[
    int | None, typer.Option(metavar="N", help="Budget; reproducible. By default about a second's.")
]
Goal = Annotated[str, typer.Option("--objective", metavar="GOAL", help=f"{' or '.join(get_args(Objective))}.")]
TimeLimit = Annotated[str | None, typer.Option(metavar="TIME", help="Budget in time, like 1s; not reproducible.")]
Report = Annotated[Path | None, typer.Option(metavar="HTML", help="Write a report to open in a browser.")]
Quiet = Annotated[
    bool,
    typer.Option("--quiet", "-q", callback=be_quiet, is_eager=True, help="Print nothing but warnings and errors."),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]


def parse_objective(text: str) -> Objective:
    """Check an objective. Raises InputError, with the nearest known one, if it is unknown."""
    return cast(Objective, _known("objective", text, get_args(Objective)))


def parse_control(text: str) -> ControlMode:
    """Check the meaning of control dependencies (docs/semantics.md). Raises InputError for an unknown one."""
    return cast(ControlMode, _known("control", text, get_args(ControlMode)))


def _known(what: str, text: str, known: Sequence[str]) -> str:
    if text not in known:
        raise InputError(f"unknown {what} '{text}'{did_you_mean(text, known)}")
    return text


def parse_dims(texts: Sequence[str] | None) -> dict[str, int]:
    """Parse "batch=8" to sizes by dimension. Raises InputError for a size that is no whole number from 1, or given
    twice."""
    dims: dict[str, int] = {}
    for text in texts or ():
        name, _, size = text.rpartition("=")
        if not name or not (size.isascii() and size.isdigit()) or not 0 < int(size[:19]) < QUANTITY_LIMIT:
            raise InputError(f"--dim '{text}' is not understood; write it like batch=8")
        if dims.get(name, int(size)) != int(size):
            raise InputError(f"--dim gives '{name}' two sizes, {dims[name]} and {size}")
        dims[name] = int(size)
    return dims


def parse_rules(option: str, texts: Sequence[str] | None) -> dict[str, str]:
    """Parse "layers.0.*=gpu0" to devices by pattern. Raises InputError for other text, and for two devices of one
    pattern."""
    rules: dict[str, str] = {}
    for text in texts or ():
        pattern, _, device = text.rpartition("=")
        if not pattern or not device:
            raise InputError(f"{option} '{text}' is not understood; write it like 'layers.0.*=gpu0'")
        if rules.get(pattern, device) != device:
            raise InputError(f"{option} gives '{pattern}' two devices, {rules[pattern]} and {device}")
        rules[pattern] = device
    return rules


def parse_forbids(texts: Sequence[str] | None) -> dict[str, list[str]]:
    """Parse "layers.0.*=gpu0,gpu1" to lists of devices by pattern; a repeated pattern gets more devices."""
    rules: dict[str, list[str]] = {}
    for text in texts or ():
        pattern, _, devices = text.rpartition("=")
        named = [device.strip() for device in devices.split(",")]
        if not pattern or not all(named):
            raise InputError(
                f"--forbid '{text}' is not understood; write it like 'layers.0.*=gpu0' or 'layers.0.*=gpu0,gpu1'"
            )
        rules[pattern] = list(dict.fromkeys([*rules.get(pattern, ()), *named]))
    return rules


def parse_groups(texts: Sequence[str] | None) -> list[list[str]]:
    """Parse "A,B" to groups of patterns."""
    groups = [[pattern.strip() for pattern in text.split(",")] for text in texts or ()]
    for text, group in zip(texts or (), groups, strict=True):
        if len(group) < 2 or not all(group):
            raise InputError(f"--colocate '{text}' is not understood; write it like 'embedding*,head*'")
    return groups


def parse_settings(texts: Sequence[str] | None) -> dict[str, Any]:
    """Parse "batch=20" to JSON values by name; a value that is no JSON is text."""
    settings: dict[str, Any] = {}
    for text in texts or ():
        name, equals, written = text.partition("=")
        if not name or not equals:
            raise InputError(f"--set '{text}' is not understood; write it like batch=20")
        value = _json_or_text(written)
        if name in settings and settings[name] != value:
            raise InputError(f"--set gives '{name}' two values, {settings[name]} and {value}")
        settings[name] = value
    return settings


def _json_or_text(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
