"""The table of methods: placewright's and those registered from outside."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar, cast

from placewright.learning.gdp.policy import GdpPolicy
from placewright.learning.learned_list.policy import LearnedListPolicy
from placewright.learning.learned_list.solver import LearnedList
from placewright.learning.placer import Placer
from placewright.learning.placers.gdp import Gdp
from placewright.learning.protocols import Policy
from placewright.methods.built_in import ENTRIES, GUIDED, PLACERS, paper_evaluations
from placewright.methods.settings import with_settings
from placewright.problem import Problem
from placewright.search.auto import Auto
from placewright.search.run.method import Method
from placewright.support.errors import InputError, shown
from placewright.support.modules import FAILURES, described
from placewright.support.suggestion import did_you_mean

#: Every method by the name users give, with its default configuration.
METHODS: dict[str, Method] = {name: entry.method for name, entry in ENTRIES.items()}
#: Plans only with a policy that is given, so it has no default configuration.
PLACER = "placer"
BUILT_IN = frozenset({*METHODS, PLACER})
#: Packages name their methods in this group of entry points: NAME = "module:METHOD".
ENTRY_POINTS = "placewright.methods"
#: A comma separates the solvers of `bench run`, a colon a solver from its policy.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]*")

M = TypeVar("M")


def default_evaluations(name: str, problem: Problem, policy: Policy | None = None) -> int:
    """The budget of that method, with that policy, where none is given."""
    if isinstance(placer := PLACERS.get(name), Gdp) and policy is not None:
        return placer.zero_shot_evaluations(problem)
    return (ENTRIES[name].default_evaluations if name in ENTRIES else paper_evaluations)(problem)


def make_method(name: str, *, policy: Policy | None = None, settings: Mapping[str, Any] | None = None) -> Method:
    """The method of that name, guided by the policy where one is given, and with these settings in place of its own.

    Raises InputError when there is no such method, or it does not take that policy or setting.
    """
    return with_settings(_method_of(name, policy), settings or {})


def _method_of(name: str, policy: Policy | None) -> Method:
    if name == PLACER:
        if policy is None:
            raise InputError(f"solver '{PLACER}' needs a policy that chooses devices: --policy FILE")
        return Placer(policy=policy)
    find_entry_point(name)
    if name not in METHODS:
        raise InputError(f"there is no solver '{name}'{did_you_mean(name, (*METHODS, PLACER))}")
    if policy is None:
        return METHODS[name]
    if name in GUIDED and GUIDED[name].takes(policy):
        return replace(GUIDED[name], policy=policy)
    if isinstance(placer := PLACERS.get(name), Gdp) and isinstance(policy, GdpPolicy):
        return placer.with_policy(policy)
    if isinstance(policy, LearnedListPolicy) and isinstance(method := METHODS[name], LearnedList):
        return replace(method, policy=policy)
    if isinstance(policy, LearnedListPolicy) and isinstance(method := METHODS[name], Auto):
        return replace(method, first=(LearnedList(policy=policy),))
    raise InputError(f"solver '{name}' does not take policy '{policy.name}'")


def register_method(method: M) -> M:
    """Make a method known by its name to `plan(solver=NAME)`, `--solver` and `bench run`.

    Parameters
    ----------
    method
        An object with a `name` and a `solve`, as `placewright.methods.table.Method` describes them, or a class of such
        objects that is called without arguments. One registered again replaces the one before.

    Returns
    -------
    object
        The same, so that this can decorate a class.

    Raises
    ------
    InputError
        Where it lacks a name or `solve`, its name is no word, or the name is that of a method of placewright's own.
    """
    made = method() if isinstance(method, type) else method
    name, solve = getattr(made, "name", None), getattr(made, "solve", None)
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InputError(
            f"a method's name is {shown(repr(name))}; it must be letters, digits and any of '_.+-', like 'my-method'"
        )
    if not callable(solve):
        raise InputError(f"method '{name}' has no 'solve' (see docs/own-methods.md)")
    if name in BUILT_IN:
        raise InputError(f"placewright has a method '{name}' of its own; give yours another name")
    METHODS[name] = cast(Method, made)
    return method


def find_entry_point(name: str) -> None:
    """Registers the method that an installed package offers under that name, if one does and it is not known yet.

    Raises InputError naming the entry point when it cannot be loaded.
    """
    if name not in METHODS:
        for entry in entry_points(group=ENTRY_POINTS, name=name):
            _load_entry_point(entry)


def load_entry_points() -> list[str]:
    """Registers the methods of all installed packages; a sentence for each that cannot be loaded."""
    complaints = []
    for entry in entry_points(group=ENTRY_POINTS):
        try:
            find_entry_point(entry.name)
        except InputError as error:
            complaints.append(str(error))
    return complaints


def _load_entry_point(entry: EntryPoint) -> None:
    label = f"entry point '{entry.name}' ({entry.value})"
    try:
        register_method(entry.load())
    except InputError as error:
        raise InputError(f"{label}: {error}") from error
    except FAILURES as error:
        raise InputError(f"{label} failed: {described(error)}") from error
    if entry.name not in METHODS:
        raise InputError(f"{label} has a method of another name; both must be the same")
