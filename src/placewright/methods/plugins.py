"""Methods from outside the package: the files that register them, and reports of their errors."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from placewright.methods.policies import FAMILIES
from placewright.methods.table import ENTRIES, METHODS
from placewright.problem import Problem
from placewright.search.run.method import Method
from placewright.search.run.result import Result, measure
from placewright.search.run.search_run import SearchRun
from placewright.support.errors import InputError, PlacewrightError, shown
from placewright.support.modules import FAILURES, PLUGIN_PREFIX, described, load_extensions, load_file


def load_plugins(paths: Iterable[str | Path]) -> None:
    """Run Python files that register methods or families of policies.

    Raises InputError, naming the file, for one that cannot be run or registers none.
    """
    for path in paths:
        _load_plugin(Path(path))


def _load_plugin(path: Path) -> None:
    load_extensions()  # before the file does, so that their methods are not taken for those of the file
    before = {**METHODS, **FAMILIES}
    try:
        load_file(path, f"{PLUGIN_PREFIX}{path.stem}")
    except OSError as error:
        raise InputError(f"cannot read plugin '{shown(path)}': {error.strerror or error}") from error
    except PlacewrightError as error:
        raise InputError(f"plugin '{shown(path)}': {error}") from error
    except FAILURES as error:
        raise InputError(f"plugin '{shown(path)}' failed: {described(error)}") from error
    if all(value is before.get(name) for name, value in {**METHODS, **FAMILIES}.items()):
        raise InputError(
            f"plugin '{shown(path)}' registers no method; it should call placewright.register_method, "
            "or register_policy_family"
        )


def solve(method: Method, problem: Problem, run: SearchRun) -> Result:
    """Solve the problem with the method. For a method from outside, the result is measured anew, and its errors raise
    an InputError that names it."""
    if method.name in ENTRIES:
        return method.solve(problem, run)
    try:
        result = method.solve(problem, run)
    except PlacewrightError:
        raise
    except FAILURES as error:
        raise InputError(f"method '{method.name}' failed: {described(error)}") from error
    if not isinstance(result, Result):
        raise InputError(f"method '{method.name}' returned {shown(type(result).__name__)}, not a Result")
    try:
        return replace(result, metrics=measure(problem, result.solution))
    except (TypeError, ValueError, AttributeError) as error:
        reason = shown(str(error).splitlines()[0])
        raise InputError(f"method '{method.name}' made an invalid solution: {reason}") from error
