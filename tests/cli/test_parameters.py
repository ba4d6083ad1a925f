"""Options of commands and parameters of the Python functions behind them: equal names, equal defaults."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from typing import Any

import pytest

import placewright
from placewright.cli import fitting, planning, running

#: Options that may be repeated, under the name of all of them in Python; and those named otherwise.
RENAMED = {"pin": "pins", "forbid": "forbids", "dim": "dims", "setting": "settings", "plan_file": "plan"}
#: What a command writes or prints, and files of methods, which Python registers by a call.
OF_COMMANDS = {"output", "report", "trace", "as_json", "quiet", "plugin"}
#: Options that are handed on only where they are given.
IF_GIVEN = {fitting.fit: {"time_limit"}}
#: Arguments of a model, which FILE.py:FUNCTION gives, and functions that are called meanwhile.
OF_PYTHON = {"args", "kwargs", "loss", "on_progress", "on_stage", "interrupted"}


def parameters(*functions: Callable[..., Any]) -> dict[str, Any]:
    """Return defaults by name, from the first function that has it. Lists that are empty by default count as absent."""
    found: dict[str, Any] = {}
    for function in functions:
        for name, parameter in inspect.signature(function).parameters.items():
            if parameter.kind is not inspect.Parameter.VAR_KEYWORD:
                default = None if parameter.default in ((), None) else parameter.default
                found.setdefault(RENAMED.get(name, name), default)
    return found


@pytest.mark.parametrize(
    ("command", "functions", "alone", "not_offered"),
    [
        # For sets of graphs, suites say what control dependencies mean.
        (planning.plan, [placewright.plan], (), {"control"}),
        # Advice, or with --limits a table.
        (fitting.fit, [placewright.alternatives, placewright.frontier], {"limits"}, ()),
        # `keep`, `objective` and `memory_limit` are handed on to `plan`.
        (
            running.run,
            [placewright.compile, placewright.plan],
            {"calibrate", "steps"},
            {"optimizer", "measure_placements", "split", "verify"} | set(parameters(placewright.plan)),
        ),
        (running.profile, [placewright.profile], (), ()),
    ],
    ids=["plan", "fit", "run", "profile"],
)
def test_a_command_has_the_parameters_of_its_function(
    command: Callable[..., Any],
    functions: list[Callable[..., Any]],
    alone: Collection[str],
    not_offered: Collection[str],
) -> None:
    options, offered = parameters(command), parameters(*functions)
    own = {name: default for name, default in options.items() if name not in OF_COMMANDS | set(alone)}
    assert own.keys() - offered.keys() == set()
    assert offered.keys() - own.keys() - OF_PYTHON - set(not_offered) - {"folder"} == set()
    given = {name for name in own if offered[name] is not inspect.Parameter.empty} - IF_GIVEN.get(command, set())
    assert {name: own[name] for name in given} == {name: offered[name] for name in given}
