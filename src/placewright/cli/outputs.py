"""Files a command is asked to write: refused before the work starts if they cannot be written."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from placewright.support.errors import InputError, MissingExtraError
from placewright.support.files import read_bytes


def check_outputs(outputs: Mapping[str, Path | None], inputs: Sequence[str | Path | None] = ()) -> None:
    """Raises InputError when an output cannot be written, or is an input or another output too.

    outputs: by option ("--report"). The folder is tried by making a file in it that has no name.
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
    """The files in which an ONNX model has its weights; none of what is no such model."""
    if model.suffix != ".onnx":
        return []
    from placewright.importers.onnx.model import read_model
    from placewright.importers.onnx.records import external_weights

    try:
        weights = external_weights(read_model(read_bytes(model), model.name).graph)
    except (InputError, MissingExtraError):
        return []  # Whoever reads it for the command says what is wrong with it.
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
    """What keeps from replacing what stands at `path` now; empty when nothing does. Raises OSError for a name that
    cannot be looked up."""
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
