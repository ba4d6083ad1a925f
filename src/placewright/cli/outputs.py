"""Checks of the output files of a command before its work starts."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from placewright.support.errors import InputError, MissingExtraError
from placewright.support.files import read_bytes


def check_outputs(outputs: Mapping[str, Path | None], inputs: Sequence[str | Path | None] = ()) -> None:
    """Raise InputError when an output cannot be written, or is also an input or another output.

    outputs: by option ("--report"). The folder is tried by creating an unnamed file in it.
    """
    given = {option: path for option, path in outputs.items() if path is not None}
    for path in given.values():
        _check_writable(path)
    taken = {os.path.realpath(path): "an input" for path in inputs if path is not None}
    if any(path.exists() for path in given.values()):
        taken |= {os.path.realpath(file): "an input" for path in inputs if path for file in _weights_beside(Path(path))}
    for option, path in given.items():
        place = os.path.realpath(path)
        if place in taken:
            raise InputError(f"{option} would overwrite '{path}', which is {taken[place]} of this command")
        taken[place] = f"the {option} output"


def _weights_beside(model: Path) -> list[Path]:
    """List the external weight files of an ONNX model; none for other files."""
    if model.suffix != ".onnx":
        return []
    from placewright.importers.onnx.model import read_model
    from placewright.importers.onnx.records import external_weights

    try:
        weights = external_weights(read_model(read_bytes(model), model.name).graph)
    except (InputError, MissingExtraError):
        return []  # The code that reads it for the command reports the error.
    return [model.parent / entry.value for each in weights for entry in each.external_data if entry.key == "location"]


def _check_writable(path: Path) -> None:
    try:
        if problem := _present_problem(path):
            raise InputError(f"cannot write '{path}': {problem}")
        with tempfile.TemporaryFile(dir=path.parent):
            return
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise InputError(f"cannot write '{path}': {reason}") from error


def _present_problem(path: Path) -> str:
    """Say why the present file at `path` cannot be replaced; empty when it can. Raises OSError for a name that cannot
    be looked up."""
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return ""
    if stat.S_ISDIR(mode):
        return "it is a folder"
    # /dev/stdout may lead to a regular file, but writing it would replace the link in /dev.
    folder = os.path.realpath(path.parent) + os.sep
    if not stat.S_ISREG(mode) or folder == "/dev/" or folder.startswith("/proc/"):
        return "it is no regular file"
    return "" if os.access(path, os.W_OK) else "no permission"
