"""Map files: JSON, compressed when the name ends in .gz. docs/formats.md describes every key."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from placewright.importers.json_graph import unpack
from placewright.lab.memory_levels.record import SCHEMA_VERSION, MappedOp, MappedTensor, MemoryMap
from placewright.support.errors import InputError, other_version, parser_message, shown
from placewright.support.files import read_bytes
from placewright.support.records import document_of, model_of, read_values, write_document

if TYPE_CHECKING:
    from pydantic import BaseModel

KIND = "memory-map"
_COLUMNS: Mapping[str, type] = {"ops": MappedOp, "tensors": MappedTensor}


def write_map(found: MemoryMap, path: str | Path) -> None:
    """Write the map so that `read_map` returns an equal one; gzipped when the name ends in .gz.

    Raises InputError when the file cannot be written; nothing is left half-written.
    """
    write_document({"kind": KIND, "schema_version": SCHEMA_VERSION, **document_of(found, _COLUMNS)}, path)


def read_map(path: str | Path) -> MemoryMap:
    """Read the map in a file. Raises InputError naming the file, the field and what is wrong with it."""
    name = shown(path)
    data = unpack(read_bytes(path), str(path))
    _check_kind(data, name)
    values = read_values(_model(), data, name, "memory map", _COLUMNS)
    del values["kind"], values["schema_version"]
    found = MemoryMap(**values)
    try:
        _check(found)
    except InputError as error:
        raise InputError(f"'{name}': {error}") from None
    return found


def _check_kind(data: bytes, name: str) -> None:
    from pydantic_core import from_json

    try:
        document = from_json(data, allow_inf_nan=False)
    except ValueError as error:
        raise InputError(f"'{name}' is not valid JSON: {parser_message(error)}") from None
    if not isinstance(document, dict) or document.get("kind") != KIND:
        raise InputError(f"'{name}' is not a memory map")
    version = document.get("schema_version")
    if version != SCHEMA_VERSION or isinstance(version, bool):
        raise InputError(f"'{name}' {other_version(version, SCHEMA_VERSION)}")


def _check(found: MemoryMap) -> None:
    """Check that indices are valid, so that code that shows the map can follow them."""
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
    """Return a model of the content of a map file, made from the fields of MemoryMap."""
    columns = {key: model_of(kind, columns=True) for key, kind in _COLUMNS.items()}
    beside = {"kind": str, "schema_version": int, "others": dict[str, int], "configuration": dict[str, Any]}
    return model_of(MemoryMap, {**beside, **columns})
