"""Models that Python code makes: modules of PyTorch and functions of JAX, given or named as "FILE.py:FUNCTION"."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from placewright.graph import Graph
from placewright.importers.jax.function import from_jax
from placewright.importers.torch.module import from_torch
from placewright.support.errors import InputError, PlacewrightError, shown
from placewright.support.modules import FAILURES, PLUGIN_PREFIX, described, load_file


def made_by(source: str) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """The model, its arguments and its arguments by name that the function of "FILE.py:FUNCTION" returns.

    Raises InputError where there is no such function, it returns something else, or it raises an error itself.
    """
    path, _, name = source.rpartition(":")
    if not path or not name:
        raise InputError(f"'{shown(source)}' does not name a function; write it like net.py:build")
    if not Path(path).is_file():
        raise InputError(f"cannot read '{shown(path)}': No such file or directory")
    try:
        function = getattr(load_file(Path(path), PLUGIN_PREFIX + Path(path).stem), name, None)
        if not callable(function):
            raise InputError(f"'{shown(path)}' has no function '{shown(name)}'")
        made = function()
    except PlacewrightError:
        raise
    except FAILURES as error:
        raise InputError(f"'{shown(source)}' failed: {described(error, Path(path))}") from error
    if not isinstance(made, tuple) or len(made) not in (2, 3):
        what = f"{len(made)} things" if isinstance(made, tuple) else f"a {shown(type(made).__name__)}"
        raise InputError(
            f"'{shown(source)}' must return a module and its arguments, not {what}: `return model, (x,)`, or with "
            "arguments by name `return model, (), {'labels': y}`"
        )
    model, arguments, *named = made
    by_name = named[0] if named else {}
    if not isinstance(by_name, Mapping) or not all(isinstance(name, str) for name in by_name):
        raise InputError(
            f"the third thing that '{shown(source)}' returns holds arguments by name, like {{'labels': y}}, and "
            f"a {shown(type(by_name).__name__)} does not"
        )
    return model, arguments if isinstance(arguments, tuple) else (arguments,), dict(by_name)


def captured(model: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None, *, training: bool = False) -> Graph:
    """The graph of a module or function."""
    capture = from_jax if _is_jax_function(model) else from_torch
    try:
        return capture(model, args, kwargs, training=training)
    except SystemExit as error:
        raise InputError(f"'{shown(type(model).__name__)}' failed while it was captured: {described(error)}") from error


def _is_jax_function(model: Any) -> bool:
    """True if the model can be called and is no module or program of PyTorch, which is not imported for the check."""
    torch = sys.modules.get("torch")
    return callable(model) and not (torch and isinstance(model, torch.nn.Module | torch.export.ExportedProgram))
