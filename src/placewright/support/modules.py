"""Modules of Python that are files of the user's, and installed packages that extend placewright."""

from __future__ import annotations

import importlib.util
import os
import sys
from importlib.metadata import entry_points
from pathlib import Path
from traceback import extract_tb
from types import ModuleType

from placewright.support.errors import InputError, shown

#: Of the names of modules that plugins become.
PLUGIN_PREFIX = "placewright_plugin_"
#: What code of a user may end with; sys.exit in it is not the end of what called it. Ctrl-C is.
FAILURES = (Exception, SystemExit)
#: Messages of the user's code are told whole up to so many characters.
_MAX_MESSAGE = 2000
#: How far the chain of what an error was raised from is followed.
_MAX_CAUSES = 20


def load_file(path: Path, name: str) -> ModuleType:
    """Runs a Python file as the module of that name, by which dataclasses and pickle find it. As for a script, its
    folder is the first place where what it imports is looked for.

    Raises InputError where it is no Python file, or would import another module than the one beside it, and whatever
    running it raises.
    """
    specification = importlib.util.spec_from_file_location(name, path)
    if specification is None or specification.loader is None:
        raise InputError(f"'{shown(path)}' is no Python file: its name must end in .py")
    _import_first_from(path)
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module
    specification.loader.exec_module(module)
    return module


def _import_first_from(file: Path) -> None:
    """Makes what lies beside a file importable.

    Raises InputError for a module of the same name that this process has from elsewhere: Python would hand that out.
    """
    folder = os.path.dirname(os.path.realpath(file))
    for name, module in list(sys.modules.items()):
        other = getattr(module, "__file__", None)
        if "." in name or name.startswith("__") or name in sys.stdlib_module_names or name == file.stem or not other:
            continue
        beside = [os.path.join(folder, each) for each in (f"{name}.py", os.path.join(name, "__init__.py"))]
        if any(map(os.path.isfile, beside)) and os.path.realpath(other) not in beside:
            raise InputError(
                f"'{shown(file)}' has a module '{name}' beside it, and '{shown(other)}' was imported by that name "
                "before; rename one of them, or read the file in a process of its own"
            )
    if folder in sys.path:
        sys.path.remove(folder)
    sys.path.insert(0, folder)


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
    told = f"{type(error).__name__}: {_message(what)}{f' ({place})' if place else ''}"
    # What a library raises from another error may hide that one's message, as lazy imports of transformers do.
    root = error
    for _ in range(_MAX_CAUSES):
        root = root.__cause__ or root
    return told if root is error else f"{told}, caused by {type(root).__name__}: {_message(str(root))}"


def _message(text: str) -> str:
    return shown(" ".join(text.split()) or "no message", _MAX_MESSAGE)


#: Packages name such modules in this group of entry points; the laboratory (`placewright.lab`) is one.
ENTRY_POINTS = "placewright.extensions"

_complaints: list[str] | None = None


def load_extensions() -> list[str]:
    """Imports them once: where a name is asked for that nobody knows, so that planning does not wait for what it lacks.

    Returns a sentence for each that cannot be imported, which concerns nobody who does not need it.
    """
    global _complaints
    if _complaints is None:
        _complaints = []  # an extension may ask for names while it is imported
        for entry in entry_points(group=ENTRY_POINTS):
            try:
                entry.load()
            except FAILURES as error:
                _complaints.append(f"entry point '{entry.name}' ({entry.value}) failed: {described(error)}")
    return _complaints


def lacking() -> str:
    """What to add to a sentence about a name that nobody knows: extensions that might have known it."""
    return "".join(f"; {complaint}" for complaint in load_extensions())
