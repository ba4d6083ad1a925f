"""Modules of Python that are files of the user's."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from placewright.support.errors import InputError, shown

#: Of the names of modules that plugins become.
PLUGIN_PREFIX = "placewright_plugin_"


def load_file(path: Path, name: str) -> ModuleType:
    """Runs a Python file as the module of that name, by which dataclasses and pickle find it.

    Raises InputError where it is no Python file, and whatever running it raises.
    """
    specification = importlib.util.spec_from_file_location(name, path)
    if specification is None or specification.loader is None:
        raise InputError(f"plugin '{shown(path)}' is no Python file: its name must end in .py")
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module
    specification.loader.exec_module(module)
    return module
