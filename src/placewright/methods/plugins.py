"""Methods from outside the package at work: the files that register them, and what they do wrong."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from placewright.methods.table import BUILT_IN, METHODS, described
from placewright.problem import Problem
from placewright.search.method import Method
from placewright.search.result import Result, measure
from placewright.search.search_run import SearchRun
from placewright.support.errors import InputError, PlacewrightError, shown


def load_plugins(paths: Iterable[str | Path]) -> None:
    """Runs Python files that register methods. Raises InputError, naming the file, for one that cannot be run or
    registers none."""
    for path in paths:
        _load_plugin(Path(path))


def _load_plugin(path: Path) -> None:
    module_name = f"placewright_plugin_{path.stem}"
    specification = importlib.util.spec_from_file_location(module_name, path)
    if specification is None or specification.loader is None:
        raise InputError(f"plugin '{shown(path)}' is no Python file: its name must end in .py")
    before = dict(METHODS)
    module = importlib.util.module_from_spec(specification)
    # Dataclasses and pickle look their module up by name.
    sys.modules[module_name] = module
    try:
        specification.loader.exec_module(module)
    except OSError as error:
        raise InputError(f"cannot read plugin '{shown(path)}': {error.strerror or error}") from error
    except PlacewrightError as error:
        raise InputError(f"plugin '{shown(path)}': {error}") from error
    except Exception as error:
        raise InputError(f"plugin '{shown(path)}' failed: {described(error)}") from error
    if all(METHODS[name] is before.get(name) for name in METHODS):
        raise InputError(f"plugin '{shown(path)}' registers no method; it should call placewright.register_method")


def solve(method: Method, problem: Problem, run: SearchRun) -> Result:
    """What the method makes of the problem. Of one from outside the result is measured anew, and what it does wrong
    raises an InputError that names it."""
    if method.name in BUILT_IN:
        return method.solve(problem, run)
    try:
        result = method.solve(problem, run)
    except PlacewrightError:
        raise
    except Exception as error:
        raise InputError(f"method '{method.name}' failed: {described(error)}") from error
    if not isinstance(result, Result):
        raise InputError(f"method '{method.name}' returned {shown(type(result).__name__)}, not a Result")
    try:
        return replace(result, metrics=measure(problem, result.solution))
    except (TypeError, ValueError, AttributeError) as error:
        reason = shown(str(error).splitlines()[0])
        raise InputError(f"method '{method.name}' made a solution that is none: {reason}") from error
