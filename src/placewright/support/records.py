"""Frozen records as JSON documents: written field by field, long lists as columns, and read strictly.

Plans are such records, as are other files that name their kind at the beginning.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import MappingProxyType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin, get_type_hints

from placewright.support.errors import InputError, shown
from placewright.support.files import write_atomically
from placewright.support.quantities import QUANTITY_LIMIT

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError

#: Default of fields that a file lacks. If pydantic reported them as missing, each error would keep a copy of the
#: record, which may be the whole file.
_ABSENT = object()
#: The least value of whole numbers that may be negative; all others are at least 0. -2 is `WAITS_FOR_LAUNCH` of plans.
_LEAST = {"waits_for": -2, "saved_ps": -QUANTITY_LIMIT}
#: The dataclass of each model.
_KIND_OF: dict[type, type] = {}


def document_of(record: Any, columns: Mapping[str, type]) -> dict[str, Any]:
    """Return the fields of a record under their own names. columns: the lists that are written as one list per
    field."""
    document = {field.name: getattr(record, field.name) for field in fields(record)}
    for key, value in document.items():
        if key in columns:
            names = [column.name for column in fields(columns[key])]
            document[key] = {name: [getattr(row, name) for row in value] for name in names}
        else:
            document[key] = _plain(value)
    return document


def same_named(kind: type, *sources: object) -> dict[str, Any]:
    """Collect the sources' attributes that have the names of a record's fields, by name; the first source wins."""
    return {
        field.name: getattr(source, field.name)
        for field in fields(kind)
        for source in reversed(sources)
        if hasattr(source, field.name)
    }


def _plain(value: Any) -> Any:
    """Convert a value's records to dictionaries; long lists of numbers are not copied."""
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple) and value and is_dataclass(value[0]):
        return [_plain(row) for row in value]
    return dict(value) if isinstance(value, Mapping) else value


def kind_in(data: bytes) -> str | None:
    """Read the kind at the beginning of a document, such as "memory-map"; None for documents without one, such as
    plans."""
    found = re.match(rb'\{\n"kind": "([\w-]+)"', data)
    return found and found[1].decode()


def write_document(document: Mapping[str, Any], path: str | Path) -> None:
    """Write one line per key; gzipped when the name ends in .gz.

    Raises InputError when the file cannot be written; nothing is left half-written.
    """
    data = _encode(document)
    if re.search(rb"\\ud[89ab]", data):
        data = _encode(_without_lone_surrogates(document))
    write_atomically(path, gzip.compress(data, compresslevel=4, mtime=0) if str(path).endswith(".gz") else data)


def _encode(document: Mapping[str, Any]) -> bytes:
    lines = [f"{json.dumps(key)}: {dumps(value)}" for key, value in document.items()]
    return ("{\n" + ",\n".join(lines) + "\n}\n").encode("ascii")


def dumps(value: object) -> str:
    """Write JSON on one line, without spaces."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def _without_lone_surrogates(value: Any) -> Any:
    """Spell out lone surrogates (Python's representation of bytes of a file name that is not UTF-8), as in "\\udcff":
    no JSON reader accepts them otherwise."""
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()
    if isinstance(value, Mapping):
        return {_without_lone_surrogates(key): _without_lone_surrogates(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_without_lone_surrogates(entry) for entry in value]
    return value


def model_of(
    kind: type,
    replaced: Mapping[str, Any] = MappingProxyType({}),
    *,
    columns: bool = False,
    optional: Mapping[str, Any] = MappingProxyType({}),
) -> type[BaseModel]:
    """Build the schema of a document from the fields of a dataclass. It is strict: no other keys or types, and no
    absurd numbers.

    replaced: other types of some keys, or keys besides the fields. columns: True if each field is a list of values.
    optional: keys that may be absent, with their default values.
    """
    from pydantic import ConfigDict, FailFast, create_model

    config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)
    hints = get_type_hints(kind) | dict(replaced)
    limited = {name: _limited(name, hint) for name, hint in hints.items()}
    if columns:
        limited = {name: Annotated[list[hint], FailFast()] for name, hint in limited.items()}  # type: ignore[valid-type]
    described: dict[str, Any] = {name: (hint, optional.get(name, _ABSENT)) for name, hint in limited.items()}
    model: type[BaseModel] = create_model(kind.__name__, __config__=config, **described)
    _KIND_OF[model] = kind
    return model


def _limited(name: str, hint: Any) -> Any:
    """Return the type with its dataclasses as records and every whole number from 0, or the least of its name, to 2**62
    - 1, a seed to 2**64 - 1."""
    from pydantic import FailFast, Field

    if is_dataclass(hint):
        return model_of(hint)  # type: ignore[arg-type]
    if hint is int:
        limit = 2**64 if name == "seed" else QUANTITY_LIMIT
        return Annotated[int, Field(ge=_LEAST.get(name, 0), lt=limit)]
    if get_origin(hint) is tuple:
        return Annotated[tuple[_limited(name, get_args(hint)[0]), ...], FailFast()]  # type: ignore[misc]
    if get_origin(hint) is UnionType:
        return Union[tuple(_limited(name, part) for part in get_args(hint))]  # noqa: UP007
    return hint


def read_values(
    model: type[BaseModel], data: bytes, name: str, what: str, columns: Mapping[str, type]
) -> dict[str, Any]:
    """Read the values of a document by key; records and the rows of columns are built.

    name: of the file. what: of what it should be. Raises InputError naming the file, the field and what is wrong.
    """
    from pydantic import ValidationError

    try:
        read = model.model_validate_json(data)
    except ValidationError as error:
        # Another document, such as a graph, lacks most keys: that is more helpful than the types of those it has.
        if lacking := _absent_at_top(model, data):
            raise InputError(f"'{name}' is not a whole {what}: '{lacking}' is missing") from None
        raise InputError(_sentence(error, data, name)) from None
    if absent := next(_absent(read), None):
        raise InputError(f"'{name}' is not a whole {what}: '{absent}' is missing")
    try:
        return {
            key: _rows(key, columns[key], dict(value or {})) if key in columns else _made(value) for key, value in read
        }
    except InputError as error:
        raise InputError(f"'{name}': {error}") from None


def _made(value: Any) -> Any:
    """Build the records of a value."""
    if type(value) in _KIND_OF:
        return _KIND_OF[type(value)](**{key: _made(entry) for key, entry in value})
    return tuple(map(_made, value)) if isinstance(value, tuple) and value and type(value[0]) in _KIND_OF else value


def _rows(key: str, kind: type, columns: Mapping[str, Sequence[Any]]) -> tuple[Any, ...]:
    lengths = {column: len(values) for column, values in columns.items()}
    if len(set(lengths.values())) > 1:
        shortest, longest = min(lengths, key=lengths.__getitem__), max(lengths, key=lengths.__getitem__)
        raise InputError(f"{key}: '{shortest}' has {lengths[shortest]} values but '{longest}' has {lengths[longest]}")
    names = list(columns)
    return tuple(kind(**dict(zip(names, row, strict=True))) for row in zip(*columns.values(), strict=True))


def _absent(record: BaseModel, before: str = "") -> Iterator[str]:
    """Yield the fields of the record, and of those in it, that the file lacks."""
    for field, value in record:
        if value is _ABSENT:
            yield f"{before}{field}"
        elif type(value) in _KIND_OF:
            yield from _absent(value, f"{before}{field}.")
        elif isinstance(value, tuple) and value and type(value[0]) in _KIND_OF:
            for number, part in enumerate(value):
                yield from _absent(part, f"{before}{field}.{number}.")


def _absent_at_top(model: type[BaseModel], data: bytes) -> str:
    """Return the first field that the document lacks; "" for none, and where it is no JSON object."""
    from pydantic_core import from_json

    try:
        document = from_json(data)
    except ValueError:
        return ""
    needed = (field for field, info in model.model_fields.items() if info.default is _ABSENT)
    return next((field for field in needed if field not in document), "") if isinstance(document, dict) else ""


def _sentence(error: ValidationError, data: bytes, name: str) -> str:
    """Describe the first error, in our own words where the key is unknown."""
    first = error.errors(include_url=False, include_input=False)[0]
    if not first["loc"]:
        return f"'{name}' is not valid JSON"
    place = shown(".".join(str(part) for part in first["loc"]))
    if first["type"] == "extra_forbidden":
        return f"'{name}' has the unknown key '{place}'"
    found = _quoted(_value_at(data, first["loc"]))
    message = first["msg"].removeprefix("Input ")
    return f"'{name}': '{place}' {message}, not {found[:60]}{'...' if len(found) > 60 else ''}"


def _value_at(data: bytes, place: Sequence[Any]) -> object:
    from pydantic_core import from_json

    value: Any = from_json(data)
    for part in place:
        if not isinstance(value, dict | list):
            break  # beyond are the members of a union, which the file does not name
        value = value[part]
    return value


def _quoted(value: object) -> str:
    """Show the value as in the file, or its beginning."""
    if isinstance(value, int):
        return shown(value)
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    return repr(value[:61] if isinstance(value, str) else value)
