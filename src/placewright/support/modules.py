"""Import of the user's Python files as modules, and of installed packages that extend placewright."""

from __future__ import annotations

import importlib.util
import os
import sys
from importlib.metadata import entry_points
from pathlib import Path
from traceback import extract_tb
from types import ModuleType

from placewright.support.errors import InputError, shown

#: Prefix of the names of modules made from plugins.
PLUGIN_PREFIX = "placewright_plugin_"
#: Exceptions with which the user's code may fail. Its sys.exit does not end the process that called it; Ctrl-C does.
FAILURES = (Exception, SystemExit)
#: Messages of the user's code are quoted up to so many characters.
_MAX_MESSAGE = 2000
#: The most links of an error's chain of causes that are followed.
_MAX_CAUSES = 20


def load_file(path: Path, name: str) -> ModuleType:
    """Run a Python file as the module of that name, by which dataclasses and pickle find it. Its imports are first
    searched in its own folder, as for a script.

    Raises InputError where it is no Python file, or would import another module than the one in its folder, and any
    exception of the file's code.
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
    """Make the modules in a file's folder importable.

    Raises InputError if this process has already imported a module of the same name from elsewhere, which Python would
    return.
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
    """Describe an error and its line: "ZeroDivisionError: division by zero (mine.py:12)". file: name its line even if
    the error was raised in code that it calls."""
    if isinstance(error, SyntaxError):
        place = f"{Path(error.filename or '').name}:{error.lineno}"
        what = error.msg
    else:
        frames = extract_tb(error.__traceback__)
        of_file = [frame for frame in frames if file is not None and Path(frame.filename) == file.absolute()]
        place = "".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in (of_file or frames)[-1:])
        what = str(error)
    told = f"{type(error).__name__}: {_message(what)}{f' ({place})' if place else ''}"
    # An error that a library raises from another may hide that one's message, as lazy imports of transformers do.
    root = error
    for _ in range(_MAX_CAUSES):
        root = root.__cause__ or root
    return told if root is error else f"{told}, caused by {type(root).__name__}: {_message(str(root))}"


def _message(text: str) -> str:
    return shown(" ".join(text.split()) or "no message", _MAX_MESSAGE)


#: The group of entry points in which packages name such modules; the laboratory (`placewright.lab`) is one.
ENTRY_POINTS = "placewright.extensions"

_complaints: list[str] | None = None


def load_extensions() -> list[str]:
    """Import the extensions once, when an unknown name is asked for, so that planning does not wait for them.

    Returns a sentence for each that cannot be imported, which matters only to those who need it.
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
    """Extend a sentence about an unknown name by the extensions that failed to load and might have known it."""
    return "".join(f"; {complaint}" for complaint in load_extensions())
