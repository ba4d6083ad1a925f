"""Plan files: JSON, compressed when the name ends in .gz. docs/formats.md describes every key."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin, get_type_hints

from placewright.costs.estimate import TimeSources
from placewright.importers.json_graph import unpack
from placewright.machine import Machine
from placewright.machines import machine_from_json, machine_to_json
from placewright.memory_levels.file import MAP_HEAD
from placewright.plans.consistency import check_consistency
from placewright.plans.record import (
    SCHEMA_VERSION,
    WAITS_FOR_LAUNCH,
    BaselineOutcome,
    Buffer,
    MemoryCurve,
    OneDevice,
    Plan,
    ScheduledOp,
    Transfer,
)
from placewright.problem.objective import Metrics
from placewright.rematerialization.reruns import Move, Rerun
from placewright.support.errors import InputError, other_version, parser_message, shown
from placewright.support.files import read_bytes, write_atomically
from placewright.support.garbage import collection_paused
from placewright.support.quantities import QUANTITY_LIMIT

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError

#: The lists of a plan that are written as one list per field.
_COLUMNS: Mapping[str, type] = {
    "ops": ScheduledOp,
    "transfers": Transfer,
    "buffers": Buffer,
    "reruns": Rerun,
    "moves": Move,
}
#: Left out where they are empty, with what stands for them.
_OPTIONAL: Mapping[str, Any] = {"reruns": None, "moves": None, "memory_floor_op": ""}
#: Stands for what a file lacks. Were it pydantic to miss it, each field that is absent would keep a copy of the record,
#: which may be the whole file.
_ABSENT = object()


@collection_paused()
def write_plan(plan: Plan, path: str | Path) -> None:
    """Writes the plan so that `read_plan` gives it back equal; gzipped when the name ends in .gz.

    Raises InputError when the file cannot be written; nothing is left half-written.
    """
    data = _encode(_document(plan))
    if re.search(rb"\\ud[89ab]", data):
        data = _encode(_without_lone_surrogates(_document(plan)))
    write_atomically(path, gzip.compress(data, compresslevel=4, mtime=0) if str(path).endswith(".gz") else data)


@collection_paused()
def read_plan(path: str | Path) -> Plan:
    """The plan in a file. Raises InputError naming the file, the field and what is wrong with it."""
    name = str(path)
    data = unpack(read_bytes(path), name)
    from pydantic import ValidationError

    try:
        read = _model().model_validate_json(data)
    except ValidationError as error:
        if data.startswith(MAP_HEAD):
            raise InputError(f"'{name}' is a memory map, and this needs a plan") from None
        _check_version(data, name)
        # Another document, such as a graph, lacks most of a plan: that says more than the type of what it has.
        if lacking := _absent_at_top(data):
            raise InputError(f"'{name}' is not a whole plan: '{lacking}' is missing") from None
        raise InputError(_sentence(error, data, name)) from None
    values = dict(read)
    if values["schema_version"] != SCHEMA_VERSION or b"NaN" in data or b"Infinity" in data:
        _check_version(data, name)
    if absent := next(_absent(read), None):
        raise InputError(f"'{name}' is not a whole plan: '{absent}' is missing")
    try:
        plan = _plan_of(values)
        check_consistency(plan)
    except InputError as error:
        raise InputError(f"'{name}': {error}") from None
    return plan


def _dumps(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def _encode(document: Mapping[str, Any]) -> bytes:
    lines = [f"{json.dumps(key)}: {_dumps(value)}" for key, value in document.items()]
    return ("{\n" + ",\n".join(lines) + "\n}\n").encode("ascii")


def _without_lone_surrogates(value: Any) -> Any:
    """The value with what is no character (Python's stand-in for a byte of a file name that is not UTF-8) spelled out,
    as in "\\udcff": no JSON reader takes it otherwise."""
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()
    if isinstance(value, Mapping):
        return {_without_lone_surrogates(key): _without_lone_surrogates(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_without_lone_surrogates(entry) for entry in value]
    return value


def _document(plan: Plan) -> dict[str, Any]:
    """The fields of Plan under their own names, its long lists as columns."""
    document: dict[str, Any] = {"schema_version": SCHEMA_VERSION}
    for field in fields(Plan):
        value = getattr(plan, field.name)
        if field.name in _OPTIONAL and not value:
            continue
        if field.name in _COLUMNS:
            columns = [column.name for column in fields(_COLUMNS[field.name])]
            value = {column: [getattr(row, column) for row in value] for column in columns}
        elif field.name == "machine":
            value = machine_to_json(value)
        elif field.name in ("metrics", "time_sources", "one_device", "input_order_memory"):
            value = None if value is None else asdict(value)
        elif field.name == "baselines":
            value = [asdict(row) for row in value]
        elif field.name == "memory_curves":
            value = [{"time_ns": curve.time_ns, "bytes_in_use": curve.bytes_in_use} for curve in value]
        elif field.name == "configuration":
            value = dict(value)
        document[field.name] = value
    return document


def _plan_of(values: dict[str, Any]) -> Plan:
    """The plan from validated values: records as dictionaries, the long lists as columns."""
    baselines = [
        {**row, "metrics": None if row["metrics"] is None else Metrics(**dict(row["metrics"]))}
        for row in map(dict, values["baselines"])
    ]
    values |= {key: _rows(key, kind, dict(values[key] or {})) for key, kind in _COLUMNS.items()}
    before = values["input_order_memory"]
    values |= {
        "machine": _machine(values["machine"]),
        "metrics": Metrics(**dict(values["metrics"])),
        "memory_curves": tuple(MemoryCurve(**dict(row)) for row in values["memory_curves"]),
        "baselines": tuple(BaselineOutcome(**row) for row in baselines),
        "input_order_memory": None if before is None else MemoryCurve(**dict(before)),
        "time_sources": None if values["time_sources"] is None else TimeSources(**dict(values["time_sources"])),
        "one_device": _one_device(values["one_device"]),
    }
    return Plan(**{key: value for key, value in values.items() if key != "schema_version"})


def _one_device(value: Any) -> OneDevice | None:
    return None if value is None else OneDevice(**{**dict(value), "metrics": Metrics(**dict(value.metrics))})


def _machine(value: object) -> Machine:
    try:
        return machine_from_json(value)
    except InputError as error:
        raise InputError(f"machine: {error}") from None


def _rows(key: str, kind: type, columns: Mapping[str, Sequence[Any]]) -> tuple[Any, ...]:
    lengths = {column: len(values) for column, values in columns.items()}
    if len(set(lengths.values())) > 1:
        shortest, longest = min(lengths, key=lengths.__getitem__), max(lengths, key=lengths.__getitem__)
        raise InputError(f"{key}: '{shortest}' has {lengths[shortest]} values but '{longest}' has {lengths[longest]}")
    names = list(columns)
    return tuple(kind(**dict(zip(names, row, strict=True))) for row in zip(*columns.values(), strict=True))


@cache
def _model() -> type[BaseModel]:
    """What a plan file must hold, made from the fields of Plan."""
    columns: dict[str, Any] = {key: _record(kind, columns=True) for key, kind in _COLUMNS.items()}
    columns |= {key: columns[key] | None for key in ("reruns", "moves")}
    replaced = {"schema_version": int, "machine": Any, "configuration": dict[str, Any], **columns}
    return _record(Plan, replaced, optional=_OPTIONAL)


def _record(
    kind: type,
    replaced: Mapping[str, Any] | None = None,
    *,
    columns: bool = False,
    optional: Mapping[str, Any] = MappingProxyType({}),
) -> type[BaseModel]:
    """The fields of a dataclass, strictly: no other keys, no other types, no absurd numbers. optional: what may be
    absent, with what stands for it then."""
    from pydantic import ConfigDict, FailFast, create_model

    config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)
    hints = get_type_hints(kind) | dict(replaced or {})
    limited = {name: _limited(name, hint) for name, hint in hints.items()}
    if columns:
        limited = {name: Annotated[list[hint], FailFast()] for name, hint in limited.items()}  # type: ignore[valid-type]
    described: dict[str, Any] = {name: (hint, optional.get(name, _ABSENT)) for name, hint in limited.items()}
    return create_model(kind.__name__, __config__=config, **described)


def _limited(name: str, hint: Any) -> Any:
    """The type with its dataclasses as records and every whole number from 0 (waits_for: -2) to 2**62 - 1, a seed to
    2**64 - 1."""
    from pydantic import FailFast, Field

    if is_dataclass(hint):
        return _record(hint)  # type: ignore[arg-type]
    if hint is int:
        limit = 2**64 if name == "seed" else QUANTITY_LIMIT
        return Annotated[int, Field(ge=WAITS_FOR_LAUNCH if name == "waits_for" else 0, lt=limit)]
    if get_origin(hint) is tuple:
        return Annotated[tuple[_limited(name, get_args(hint)[0]), ...], FailFast()]  # type: ignore[misc]
    if get_origin(hint) is UnionType:
        return Union[tuple(_limited(name, part) for part in get_args(hint))]  # noqa: UP007
    return hint


def _absent(record: BaseModel, before: str = "") -> Iterator[str]:
    """The fields of the record, and of those in it, that the file lacks."""
    from pydantic import BaseModel

    for field, value in record:
        if value is _ABSENT:
            yield f"{before}{field}"
        elif isinstance(value, BaseModel):
            yield from _absent(value, f"{before}{field}.")
        elif isinstance(value, tuple) and value and isinstance(value[0], BaseModel):
            for number, part in enumerate(value):
                yield from _absent(part, f"{before}{field}.{number}.")


def _absent_at_top(data: bytes) -> str:
    """The first field of a plan that the document lacks; "" for none."""
    from pydantic_core import from_json

    document = from_json(data)
    needed = (field for field, info in _model().model_fields.items() if info.default is _ABSENT)
    return next((field for field in needed if field not in document), "")


def _check_version(data: bytes, name: str) -> None:
    from pydantic_core import from_json

    try:
        document = from_json(data, allow_inf_nan=False)
    except ValueError as error:
        raise InputError(f"'{name}' is not valid JSON: {parser_message(error)}") from None
    if not isinstance(document, dict) or "schema_version" not in document:
        raise InputError(f"'{name}' is not a plan: it has no schema_version")
    found = document["schema_version"]
    # A graph has a version of its own, and is told apart by what a plan has and it lacks.
    if (found != SCHEMA_VERSION or isinstance(found, bool)) and "graph_name" in document:
        found = found if isinstance(found, int) and not isinstance(found, bool) else _dumps(found)
        raise InputError(f"'{name}' {other_version(found, SCHEMA_VERSION, 'placewright plan')}")


def _sentence(error: ValidationError, data: bytes, name: str) -> str:
    """The first thing wrong, in our words where the field is unknown."""
    first = error.errors(include_url=False, include_input=False)[0]
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
    """The value as the file's author knows it, or its beginning."""
    if isinstance(value, int):
        return shown(value)
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    return repr(value[:61] if isinstance(value, str) else value)
