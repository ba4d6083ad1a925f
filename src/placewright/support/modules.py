"""Modules of Python that are files of the user's."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from traceback import extract_tb
from types import ModuleType

from placewright.support.errors import InputError, shown

#: Of the names of modules that plugins become.
PLUGIN_PREFIX = "placewright_plugin_"
#: What code of a user may end with; sys.exit in it is not the end of what called it. Ctrl-C is.
FAILURES = (Exception, SystemExit)


def load_file(path: Path, name: str) -> ModuleType:
    """Runs a Python file as the module of that name, by which dataclasses and pickle find it.

    Raises InputError where it is no Python file, and whatever running it raises.
    """
    specification = importlib.util.spec_from_file_location(name, path)
    if specification is None or specification.loader is None:
        raise InputError(f"'{shown(path)}' is no Python file: its name must end in .py")
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module
    specification.loader.exec_module(module)
    return module


def described(error: BaseException, file: Path | None = None) -> str:
    """What went wrong and in which line: "ZeroDivisionError: division by zero (mine.py:12)". file: whose line is named
    even where it raised in what that calls."""
    if isinstance(error, SyntaxError):
        place = f"{Path(error.filename or '').name}:{error.lineno}"
        what = error.msg
    else:
        frames = extract_tb(error.__traceback__)
        of_file = [frame for frame in frames if file is not None and Path(frame.filename) == file.absolute()]
        place = "".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in (of_file or frames)[-1:])
        what = str(error)
    first = shown(what.splitlines()[0] if what else "no message")
    return f"{type(error).__name__}: {first}{f' ({place})' if place else ''}"
