"""Reader for one table of a TOML or JSON file, key by key, so that every error names the file, the place and the
key."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar, cast

from placewright.support.errors import InputError, did_you_mean, shown
from placewright.support.quantities import parse_bandwidth, parse_bytes, parse_duration_ns

T = TypeVar("T")


@contextmanager
def placing(place: str) -> Iterator[None]:
    """Put the place, a file or a key, before the message of any InputError raised inside."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{place}: {error}") from None


def required(key: str, value: T | None) -> T:
    """Return the value, which must not be absent."""
    if value is None:
        raise InputError(f"{key} is missing")
    return value


class Fields:
    """A table of a file. Each method takes one key out; `finish` rejects keys that nothing took.

    Methods return None for a key that is absent, and raise InputError for a value of the wrong kind.
    """

    def __init__(self, table: object) -> None:
        if not isinstance(table, Mapping):
            raise InputError(f"{shown(repr(table))} is not a table of keys and values")
        self._rest: dict[str, Any] = dict(table)
        self._known: list[str] = []

    def take(self, key: str) -> Any:
        """Take the value unchecked."""
        self._known.append(key)
        return self._rest.pop(key, None)

    def text(self, key: str) -> str | None:
        value: str | None = self._checked(key, "a non-empty text", lambda value: isinstance(value, str) and value != "")
        return value

    def integer(self, key: str) -> int | None:
        value: int | None = self._checked(key, "a whole number", is_integer)
        return value

    def flag(self, key: str) -> bool | None:
        value: bool | None = self._checked(key, "true or false", lambda value: isinstance(value, bool))
        return value

    def number(self, key: str, unit: str = "") -> float | None:
        """Take a number. unit: its unit in error messages, such as "of elements per second, like 4e12"."""
        value: float | None = self._checked(key, f"a number {unit}".rstrip(), is_number)
        return value

    def size_bytes(self, key: str) -> int | None:
        return self.parsed(key, parse_bytes, 'a size like "80GiB"')

    def duration_ns(self, key: str) -> int | None:
        return self.parsed(key, parse_duration_ns, 'a duration like "5us"')

    def bandwidth(self, key: str) -> float | None:
        return self.parsed(key, parse_bandwidth, 'a bandwidth like "25GB/s"')

    def parsed(self, key: str, parse: Callable[[str], T], kind: str) -> T | None:
        """Take a text and convert it with a function that may raise InputError. kind: what it must be."""
        value = self._checked(key, kind, lambda value: isinstance(value, str))
        with placing(key):
            return None if value is None else parse(value)

    def numbers(self, key: str) -> dict[str, float] | None:
        """Take a table whose values are all numbers."""
        table = self._checked(key, "a table of numbers", lambda value: isinstance(value, Mapping))
        if table is not None and not all(isinstance(name, str) and is_number(value) for name, value in table.items()):
            raise InputError(f"{key} must be a table of numbers")
        return None if table is None else dict(table)

    def choice(self, key: str, choices: Sequence[str]) -> str | None:
        value = self.text(key)
        if value is not None and value not in choices:
            raise InputError(f"{key} is '{shown(value)}'{did_you_mean(value, choices)}")
        return value

    def rows(self, key: str) -> list[Any] | None:
        value: list[Any] | None = self._checked(key, "a list", lambda value: isinstance(value, list))
        return value

    def finish(self) -> None:
        """Raise InputError naming a key that nothing took."""
        for key in self._rest:
            raise InputError(f"unknown key '{shown(key)}'{did_you_mean(str(key), self._known)}")

    def _checked(self, key: str, kind: str, fits: Callable[[Any], bool]) -> Any:
        value = self.take(key)
        if value is not None and not fits(value):
            raise InputError(f"{key} must be {kind}, not {shown(repr(value))}")
        return value


def is_integer(value: object) -> bool:
    """True if the value is a whole number; true and false are not."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: object) -> bool:
    """True if the value is a number that a float can hold; true and false are not."""
    return isinstance(value, float) or (is_integer(value) and abs(cast(int, value)) < 2**1023)
