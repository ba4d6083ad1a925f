"""Plan files: JSON, compressed when the name ends in .gz. docs/formats.md describes every key."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from placewright.importers.json_graph import unpack
from placewright.machine import Machine
from placewright.machines import machine_from_json, machine_to_json
from placewright.memory_levels.file import MAP_HEAD
from placewright.plans.consistency import check_consistency
from placewright.plans.record import SCHEMA_VERSION, Buffer, Plan, ScheduledOp, Transfer
from placewright.rematerialization.reruns import Move, Rerun
from placewright.support.errors import InputError, other_version, parser_message
from placewright.support.files import read_bytes
from placewright.support.garbage import collection_paused
from placewright.support.records import document_of, dumps, model_of, read_values, write_document

if TYPE_CHECKING:
    from pydantic import BaseModel

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


@collection_paused()
def write_plan(plan: Plan, path: str | Path) -> None:
    """Writes the plan so that `read_plan` gives it back equal; gzipped when the name ends in .gz.

    Raises InputError when the file cannot be written; nothing is left half-written.
    """
    document = {"schema_version": SCHEMA_VERSION, **document_of(plan, _COLUMNS)}
    document["machine"] = machine_to_json(plan.machine)
    for key in _OPTIONAL:
        if not getattr(plan, key):
            del document[key]
    write_document(document, path)


@collection_paused()
def read_plan(path: str | Path) -> Plan:
    """The plan in a file. Raises InputError naming the file, the field and what is wrong with it."""
    name = str(path)
    data = unpack(read_bytes(path), name)
    try:
        values = read_values(_model(), data, name, "plan", _COLUMNS)
    except InputError:
        if data.startswith(MAP_HEAD):
            raise InputError(f"'{name}' is a memory map, and this needs a plan") from None
        _check_version(data, name)
        raise
    if values.pop("schema_version") != SCHEMA_VERSION or b"NaN" in data or b"Infinity" in data:
        _check_version(data, name)
    try:
        plan = Plan(**{**values, "machine": _machine(values["machine"])})
        check_consistency(plan)
    except InputError as error:
        raise InputError(f"'{name}': {error}") from None
    return plan


def _machine(value: object) -> Machine:
    try:
        return machine_from_json(value)
    except InputError as error:
        raise InputError(f"machine: {error}") from None


@cache
def _model() -> type[BaseModel]:
    """What a plan file must hold, made from the fields of Plan."""
    columns: dict[str, Any] = {key: model_of(kind, columns=True) for key, kind in _COLUMNS.items()}
    columns |= {key: columns[key] | None for key in ("reruns", "moves")}
    replaced = {"schema_version": int, "machine": Any, "configuration": dict[str, Any], **columns}
    return model_of(Plan, replaced, optional=_OPTIONAL)


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
        found = found if isinstance(found, int) and not isinstance(found, bool) else dumps(found)
        raise InputError(f"'{name}' {other_version(found, SCHEMA_VERSION, 'placewright plan')}")
