"""The table of methods: placewright's own, those of extensions and those registered from outside; with one-line
summaries, and settings by name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import Field, dataclass, fields, is_dataclass, replace
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar, cast, get_type_hints

from pydantic import TypeAdapter, ValidationError

from placewright.methods.built_in import OWN, Kind, MethodEntry, paper_evaluations
from placewright.methods.policies import Policy
from placewright.problem import Problem
from placewright.search.run.method import Method
from placewright.support.errors import InputError, did_you_mean, shown
from placewright.support.modules import FAILURES, described, lacking, load_extensions

#: The descriptions of placewright's own methods, by their names.
ENTRIES: dict[str, MethodEntry] = {}
#: Every method with its default configuration, except those that do nothing without a policy.
METHODS: dict[str, Method] = {}
#: The group of entry points in which packages name their methods: NAME = "module:METHOD".
ENTRY_POINTS = "placewright.methods"
#: A comma separates the solvers of `bench run`, a colon a solver from its policy.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]*")

M = TypeVar("M")


def add_methods(entries: Iterable[MethodEntry]) -> None:
    """Add placewright's own methods, whose names nobody else can take."""
    for entry in entries:
        ENTRIES[entry.method.name] = entry
        if not entry.needs_policy:
            METHODS[entry.method.name] = entry.method


add_methods(OWN)


def default_evaluations(name: str, problem: Problem, policy: Policy | None = None) -> int:
    """Return the default budget of the method with that name and policy."""
    entry = ENTRIES.get(name)
    if entry is None:
        return paper_evaluations(problem)
    of_policy = None if policy is None else entry.evaluations_with_policy
    return (of_policy or entry.default_evaluations)(problem)


def make_method(name: str, *, policy: Policy | None = None, settings: Mapping[str, Any] | None = None) -> Method:
    """Make the method of that name, guided by the policy if one is given, and with these settings instead of its own.

    Raises InputError when there is no such method, or it does not take that policy or setting.
    """
    return with_settings(_method_of(name, policy), settings or {})


def _method_of(name: str, policy: Policy | None) -> Method:
    find_method(name)
    entry = ENTRIES.get(name)
    if policy is not None:
        made = entry.with_policy(policy) if entry is not None and entry.with_policy is not None else None
        if made is None:
            raise InputError(f"solver '{name}' does not take policy '{policy.name}'")
        return made
    if entry is not None and entry.needs_policy:
        raise InputError(f"solver '{name}' needs a policy that chooses devices: --policy FILE")
    return METHODS[name]


def register_method(method: M) -> M:
    """Make a method known by its name to `plan(solver=NAME)`, `--solver` and `bench run`.

    Parameters
    ----------
    method
        An object with a `name` and a `solve`, as `placewright.methods.table.Method` describes them, or a class of such
        objects that is called without arguments. It replaces an earlier method of the same name.

    Returns
    -------
    object
        The same, so that this can decorate a class.

    Raises
    ------
    InputError
        Where it lacks a name or `solve`, its name is no word, or the name is that of one of placewright's own methods.
    """
    made = method() if isinstance(method, type) else method
    name, solve = getattr(made, "name", None), getattr(made, "solve", None)
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InputError(
            f"a method's name is {shown(repr(name))}; it must be letters, digits and any of '_.+-', like 'my-method'"
        )
    if not callable(solve):
        raise InputError(f"method '{name}' has no 'solve' (see docs/own-methods.md)")
    load_extensions()
    if name in ENTRIES:
        raise InputError(f"placewright has a method '{name}' of its own; give yours another name")
    METHODS[name] = cast(Method, made)
    return method


def find_method(name: str) -> None:
    """Load the method of that name from an extension or an entry point of an installed package, unless it is known.

    Raises InputError when there is none, and naming the entry point when it cannot be loaded.
    """
    if name in METHODS:
        return
    load_extensions()
    if name not in METHODS and name not in ENTRIES:
        for entry in entry_points(group=ENTRY_POINTS, name=name):
            _load_entry_point(entry)
    if name not in METHODS and name not in ENTRIES:
        raise InputError(f"there is no solver '{name}'{did_you_mean(name, {**METHODS, **ENTRIES})}{lacking()}")


def load_entry_points() -> list[str]:
    """Register the methods of all installed packages; return a sentence for each that cannot be loaded."""
    complaints = list(load_extensions())
    for entry in entry_points(group=ENTRY_POINTS):
        try:
            if entry.name not in METHODS:
                _load_entry_point(entry)
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


#: Not settings: the name identifies the method, and a policy is passed as such.
_NOT_SET = frozenset({"name", "policy"})
#: A setting whose value cannot be written down.
_NOT_LISTED = frozenset({"time_of"})


def with_settings(method: Method, settings: Mapping[str, Any]) -> Method:
    """Return the method with these settings instead of its own.

    Raises InputError for a setting that it does not have, or a value that the setting cannot take.
    """
    if not settings:
        return method
    known = {each.name: each for each in _fields(method)}
    for name in settings:
        if not known:
            raise InputError(f"solver '{method.name}' has no settings, so none is '{shown(name)}'")
        if name not in known:
            listed = [each for each in known if each not in _NOT_LISTED]
            some = f"{did_you_mean(name, listed)} (known: {', '.join(listed)})"
            raise InputError(f"solver '{method.name}' has no setting '{shown(name)}'{some}")
    hints = get_type_hints(type(method))
    values = {name: _value(method, name, hints[name], value) for name, value in settings.items()}
    return replace(method, **values)  # type: ignore[type-var]  # one that has fields is a dataclass


def _fields(method: Method) -> tuple[Field[Any], ...]:
    if not is_dataclass(method):
        return ()
    return tuple(each for each in fields(method) if each.init and each.name not in _NOT_SET)


def _value(method: Method, name: str, hint: Any, value: Any) -> Any:
    try:
        return TypeAdapter(hint).validate_python(value)
    except ValidationError as error:
        reason = error.errors()[0]["msg"]
        what = f"setting '{name}' of solver '{method.name}' cannot be {shown(repr(value))}"
        raise InputError(f"{what}: {reason[0].lower()}{reason[1:]}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodSummary:
    """One method of the list.

    Attributes
    ----------
    name
        Its name for `--solver`.
    kind
        "default", "baseline" (auto runs it first), "search of auto", "guided", "peer" (for comparison), "learner"
        (learns on the given graph) or "own" (registered from outside).
    summary
        Its description.
    needs
        Its requirements besides placewright; "" for none.
    """

    name: str
    kind: Kind
    summary: str
    needs: str


def method_summaries() -> tuple[list[MethodSummary], list[str]]:
    """List all methods, including those of installed packages, and a sentence for each of these that cannot be
    loaded."""
    complaints = load_entry_points()
    found = [
        MethodSummary(name=name, kind=entry.kind, summary=entry.summary, needs=entry.needs)
        for name, entry in ENTRIES.items()
    ]
    found += [
        MethodSummary(name=name, kind="own", summary=_first_line(method), needs="")
        for name, method in METHODS.items()
        if name not in ENTRIES
    ]
    return found, complaints


def _first_line(method: object) -> str:
    text = (type(method).__doc__ or "").strip()
    return text.splitlines()[0] if text else ""
