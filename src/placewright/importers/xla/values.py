"""What a reference in a program stands for while it is translated."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from placewright.importers.xla.program import Array, Reference
from placewright.support.errors import InputError, shown


@dataclass(frozen=True, slots=True)
class Folded:
    """An array made of constants alone, which takes no memory. number: what a whole number is."""

    array: Array
    number: int | None = None


#: A tensor by index, a folded array, nothing, or a tuple of such.
Value: TypeAlias = "int | Folded | tuple[Value, ...] | None"
Environment: TypeAlias = dict[str, "Value"]


def like(kind: Any, places: Iterator[Any]) -> Value:
    """A tree of the type's form, its leaves taken one by one."""
    return tuple(like(branch, places) for branch in kind) if isinstance(kind, tuple) else next(places)


def folded(kind: Any) -> Value:
    return tuple(folded(branch) for branch in kind) if isinstance(kind, tuple) else Folded(kind)


def look_up(environment: Environment, reference: Reference, reader: str) -> Value:
    name, path = reference
    if name not in environment:
        raise InputError(f"'{shown(reader)}' reads '{shown(name)}', which nothing before it makes")
    value = environment[name]
    for position in path:
        if not isinstance(value, tuple) or not 0 <= position < len(value):
            raise InputError(f"'{shown(reader)}' reads part {position} of '{shown(name)}', which has no such part")
        value = value[position]
    return value
