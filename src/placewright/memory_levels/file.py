"""Map files: JSON, compressed when the name ends in .gz. docs/formats.md describes every key."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

from placewright.importers.json_graph import unpack
from placewright.memory_levels.chip import Chip, MemoryLevel
from placewright.memory_levels.record import SCHEMA_VERSION, MappedOp, MappedTensor, MemoryMap
from placewright.support.errors import InputError, other_version, parser_message, shown
from placewright.support.files import read_bytes, write_atomically
from placewright.support.quantities import QUANTITY_LIMIT

if TYPE_CHECKING:
    from pydantic import BaseModel

KIND = "memory-map"
_COLUMNS: Mapping[str, type] = {"ops": MappedOp, "tensors": MappedTensor}
#: As long as the beginning of a file that says of what kind it is.
MAP_HEAD = f'{{\n"kind": "{KIND}"'.encode()
_MAY_BE_NEGATIVE = frozenset({"saved_ps", "seed"})


def write_map(found: MemoryMap, path: str | Path) -> None:
    """Writes the map so that `read_map` gives it back equal; gzipped when the name ends in .gz.

    Raises InputError when the file cannot be written; nothing is left half-written.
    """
    document: dict[str, Any] = {"kind": KIND, "schema_version": SCHEMA_VERSION}
    for field in fields(MemoryMap):
        value = getattr(found, field.name)
        if field.name in _COLUMNS:
            names = [column.name for column in fields(_COLUMNS[field.name])]
            value = {name: [getattr(row, name) for row in value] for name in names}
        elif field.name == "chip":
            value = asdict(value)
        elif isinstance(value, Mapping):
            value = dict(value)
        document[field.name] = value
    lines = [f"{json.dumps(key)}: {json.dumps(value, separators=(',', ':'))}" for key, value in document.items()]
    data = ("{\n" + ",\n".join(lines) + "\n}\n").encode("ascii")
    write_atomically(path, gzip.compress(data, compresslevel=4, mtime=0) if str(path).endswith(".gz") else data)


def is_map_file(path: str | Path) -> bool:
    """Whether a file begins as a map does. Raises InputError when it cannot be read."""
    return unpack(read_bytes(path), str(path)).startswith(MAP_HEAD)


def read_map(path: str | Path) -> MemoryMap:
    """The map in a file. Raises InputError naming the file, the field and what is wrong with it."""
    name = shown(path)
    document = _document(path)
    from pydantic import ValidationError

    try:
        values = dict(_model().model_validate(document))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = shown(".".join(map(str, first["loc"])))
        if first["type"] == "missing":
            raise InputError(f"'{name}' is not a whole memory map: '{place}' is missing") from None
        message = first["msg"].removeprefix("Input ")
        raise InputError(f"'{name}': '{place}' {message[0].lower()}{message[1:]}") from None
    try:
        return _map_of(values)
    except InputError as error:
        raise InputError(f"'{name}': {error}") from None


def _document(path: str | Path) -> dict[str, Any]:
    name = shown(path)
    try:
        document = json.loads(unpack(read_bytes(path), str(path)))
    except (ValueError, RecursionError) as error:
        raise InputError(f"'{name}' is not valid JSON: {parser_message(error)}") from None
    if not isinstance(document, dict) or document.get("kind") != KIND:
        raise InputError(f"'{name}' is not a memory map")
    version = document.get("schema_version")
    if version != SCHEMA_VERSION or isinstance(version, bool):
        raise InputError(f"'{name}' {other_version(version, SCHEMA_VERSION)}")
    return document


def _map_of(values: dict[str, Any]) -> MemoryMap:
    for key in ("kind", "schema_version"):
        del values[key]
    chip = dict(values["chip"])
    levels = tuple(MemoryLevel(**dict(level)) for level in chip["levels"])
    values["chip"] = Chip(**{**chip, "levels": levels, "assumptions": tuple(chip["assumptions"])})
    for key, kind in _COLUMNS.items():
        values[key] = _rows(key, kind, dict(values[key]))
    found = MemoryMap(**values)
    _check(found)
    return found


def _rows(key: str, kind: type, columns: Mapping[str, list[Any]]) -> tuple[Any, ...]:
    lengths = {column: len(values) for column, values in columns.items()}
    if len(set(lengths.values())) > 1:
        raise InputError(f"the lists of '{key}' have {min(lengths.values())} to {max(lengths.values())} values")
    names = list(columns)
    return tuple(kind(**dict(zip(names, row, strict=True))) for row in zip(*columns.values(), strict=True))


def _check(found: MemoryMap) -> None:
    """Indices lead somewhere, so that whatever shows the map can follow them."""
    for tensor in found.tensors:
        label = f"tensor '{shown(tensor.name)}'"
        if max(tensor.level, tensor.compiler_level) >= len(found.chip.levels):
            raise InputError(f"{label} lies in a level that chip '{shown(found.chip.name)}' lacks")
        if not tensor.first <= tensor.last < len(found.ops) or tensor.op >= len(found.ops):
            raise InputError(f"{label} is held during ops that the map lacks")
    if found.status not in ("optimal", "feasible"):
        raise InputError(f"status is '{shown(found.status)}'; it must be 'optimal' or 'feasible'")


@cache
def _model() -> type[BaseModel]:
    """What a map file must hold, made from the fields of the records, strictly."""
    columns = {
        key: _record(kind, {name: list[hint] for name, hint in _limited(kind).items()})  # type: ignore[valid-type]
        for key, kind in _COLUMNS.items()
    }
    level = _record(MemoryLevel, _limited(MemoryLevel))
    chip = _record(Chip, {**_limited(Chip), "levels": list[level], "assumptions": list[str]})  # type: ignore[valid-type]
    whole = {**_limited(MemoryMap), **columns, "chip": chip, "kind": str, "schema_version": int}
    whole |= {"others": dict[str, int], "configuration": dict[str, Any]}
    return _record(MemoryMap, whole)


def _record(kind: type, hints: Mapping[str, Any]) -> type[BaseModel]:
    from pydantic import ConfigDict, create_model

    config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)
    described: dict[str, Any] = {name: (hint, ...) for name, hint in hints.items()}
    return create_model(kind.__name__, __config__=config, **described)


def _limited(kind: type) -> dict[str, Any]:
    """The types of the fields, whole numbers from 0 to 2**62 - 1 unless they may be negative."""
    from pydantic import Field

    low = {name: -QUANTITY_LIMIT if name in _MAY_BE_NEGATIVE else 0 for name in get_type_hints(kind)}
    high = {name: 2**64 if name == "seed" else QUANTITY_LIMIT for name in low}
    return {
        name: Annotated[int, Field(ge=low[name], lt=high[name])] if hint is int else hint
        for name, hint in get_type_hints(kind).items()
    }
