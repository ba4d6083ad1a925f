"""Settings of a method by name, as users give them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, fields, is_dataclass, replace
from typing import Any, get_type_hints

from pydantic import TypeAdapter, ValidationError

from placewright.search.run.method import Method
from placewright.support.errors import InputError, shown
from placewright.support.suggestion import did_you_mean

#: The first names it, and a policy is given as such, to `auto` as what comes first.
_NOT_SET = frozenset({"name", "policy", "first"})
#: Is no value that one could write down.
_NOT_LISTED = frozenset({"time_of"})


def with_settings(method: Method, settings: Mapping[str, Any]) -> Method:
    """The method with these in place of its own.

    Raises InputError for a setting that it does not have, or a value that it cannot be.
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
