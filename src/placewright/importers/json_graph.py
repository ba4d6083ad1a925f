"""placewright's own graph files: JSON, compressed when the name ends in .gz. docs/formats.md describes every key."""

from __future__ import annotations

import difflib
import gzip
import io
import json
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from placewright.graph import Graph, Op, Tensor
from placewright.importers.builder import GraphBuilder
from placewright.support.errors import InputError, other_version, parser_message, shown
from placewright.support.files import write_atomically
from placewright.support.quantities import QUANTITY_LIMIT

SCHEMA_VERSION = 1
GZIP_MAGIC = b"\x1f\x8b"
#: Unpacked data is refused, not held in memory, if it has more bytes than this, or than so many times the file and a
#: constant: graphs and plans unpack to 8 to 20 times their size.
MAX_UNPACKED_BYTES = 2**31
_MAX_TIMES_UNPACKED, _FREE_BYTES = 50, 2**23
#: Text in which an object begins every 16 bytes, or a list every 8, becomes Python objects of many times its size; in
#: graphs and plans they begin every 50 bytes or more. So many lists more are allowed, for small files.
_BYTES_PER_OBJECT, _BYTES_PER_LIST, _FREE_LISTS = 16, 8, 200_000

#: The longest names compared: finding the nearest name takes time proportional to the product of the lengths.
_MAX_COMPARED = 200
_ROLES = ("activation", "parameter", "constant")
_PHASES = ("", "forward", "backward", "optimizer")


def save_graph(graph: Graph, path: str | Path) -> None:
    """Write a graph as Graph JSON; equal graphs give equal bytes.

    Parameters
    ----------
    graph
        The graph to write.
    path
        The file, gzipped when its name ends in .gz.

    Raises
    ------
    InputError
        When the file cannot be written or an attribute is no JSON value.
    """
    data = serialize_graph(graph)
    write_atomically(path, gzip.compress(data, compresslevel=9, mtime=0) if str(path).endswith(".gz") else data)


def serialize_graph(graph: Graph) -> bytes:
    """The graph as one line of ASCII JSON, newline included. Raises InputError when an attribute is no JSON value."""
    try:
        text = json.dumps(_document(graph), separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InputError(f"graph '{graph.name}' cannot be saved: {error}") from error
    return text.encode("ascii") + b"\n"


def parse_json_graph(data: bytes, name: str) -> Graph:
    """The graph in the bytes of a file, compressed or not. Raises InputError naming the file and the key."""
    document = decode_object(unpack(data, name), name)
    _check_keys(document, _GRAPH_FIELDS, f"'{name}'", required=("schema_version", "name", "ops", "tensors"))
    if document["schema_version"] != SCHEMA_VERSION:
        raise InputError(f"'{name}' {other_version(document['schema_version'], SCHEMA_VERSION)}")
    builder = GraphBuilder(document["name"])
    tensor_index = _add_tensors(builder, document["tensors"], name)
    _add_ops(builder, document["ops"], tensor_index, name)
    return builder.build(document.get("metadata", {}))


def unpack(data: bytes, name: str) -> bytes:
    """The bytes inside a gzip file, or the bytes themselves.

    Raises
    ------
    InputError
        For a damaged file, and for one whose bytes or JSON objects would fill the memory, before they do.
    """
    if data.startswith(GZIP_MAGIC):
        data = _unpacked(data, name)
    if data.count(b"{") > _FREE_LISTS + len(data) // _BYTES_PER_OBJECT:
        raise InputError(f"'{name}' holds next to nothing but JSON objects, {data.count(b'{'):,} of them")
    if data.count(b"[") > _FREE_LISTS + len(data) // _BYTES_PER_LIST:
        raise InputError(f"'{name}' holds next to nothing but JSON lists, {data.count(b'['):,} of them")
    return data


def _unpacked(data: bytes, name: str) -> bytes:
    most = min(MAX_UNPACKED_BYTES, _FREE_BYTES + _MAX_TIMES_UNPACKED * len(data))
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            unpacked = file.read(most + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"'{name}' is not a whole gzip file: {error}") from error
    if len(unpacked) <= most:
        return unpacked
    if most == MAX_UNPACKED_BYTES:
        raise InputError(f"'{name}' unpacks to more than {MAX_UNPACKED_BYTES} bytes")
    raise InputError(
        f"'{name}' unpacks to more than {_MAX_TIMES_UNPACKED} times its {len(data):,} bytes, as no graph or plan "
        "does; unpack it yourself to have it read"
    )


def _document(graph: Graph) -> dict[str, Any]:
    names = [tensor.name for tensor in graph.tensors]
    return {
        "schema_version": SCHEMA_VERSION,
        "name": graph.name,
        "metadata": dict(graph.metadata),
        "tensors": [_tensor_record(tensor, names) for tensor in graph.tensors],
        "ops": [_op_record(op, names, graph.ops) for op in graph.ops],
    }


def _tensor_record(tensor: Tensor, names: Sequence[str]) -> dict[str, Any]:
    """The tensor without fields at their defaults."""
    record: dict[str, Any] = {"name": tensor.name, "size_bytes": tensor.size_bytes}
    if tensor.shape is not None:
        record["shape"] = list(tensor.shape)
    if tensor.dtype is not None:
        record["dtype"] = tensor.dtype
    if tensor.role != "activation":
        record["role"] = tensor.role
    if tensor.alias_of is not None:
        record["alias_of"] = names[tensor.alias_of]
    if tensor.is_output:
        record["is_output"] = True
    if tensor.memory_bytes is not None:
        record["memory_bytes"] = tensor.memory_bytes
    return record


def _op_record(op: Op, names: Sequence[str], ops: Sequence[Op]) -> dict[str, Any]:
    """The op without fields at their defaults."""
    record: dict[str, Any] = {
        "name": op.name,
        "kind": op.kind,
        "target": op.target,
        "inputs": [names[tensor] for tensor in op.inputs],
        "outputs": [names[tensor] for tensor in op.outputs],
        "controls": [ops[control].name for control in op.controls],
        "attributes": dict(op.attributes),
        "module": op.module,
        "source": op.source,
        "phase": op.phase,
        "workspace_bytes": op.workspace_bytes,
    }
    record = {key: value for key, value in record.items() if value}
    if op.time_ns is not None:
        record["time_ns"] = op.time_ns
    return record


def decode_object(data: bytes, name: str) -> dict[str, Any]:
    """The JSON object in a file, in which numbers must be finite and keys unique. Raises InputError naming the file."""

    def refuse(text: str) -> NoReturn:
        raise InputError(f"'{name}' holds the number {shown(text)}; every number must be finite")

    def finite(text: str) -> float:
        return value if abs(value := float(text)) < float("inf") else refuse(text)

    try:
        document = json.loads(data, parse_constant=refuse, parse_float=finite, object_pairs_hook=_without_repeats)
        if re.search(rb"\\u[dD][89a-fA-F]", data):
            # A lone half of a surrogate pair is legal JSON, but cannot be printed or written.
            json.dumps(document, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise InputError(f"'{name}' is not valid JSON: {parser_message(error)}") from error
    if not isinstance(document, dict):
        raise InputError(f"'{name}' is not a graph: a JSON object was expected")
    return document


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"the key '{shown(_first_repeated(keys))}' stands twice in one object")
    return record


def _first_repeated(keys: Sequence[str]) -> str:
    seen: set[str] = set()
    return next(key for key in keys if key in seen or seen.add(key))  # type: ignore[func-returns-value]


def _is_size(value: object) -> bool:
    return type(value) is int and 0 <= value < QUANTITY_LIMIT


def _is_names(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(entry, str) for entry in value)


#: The required value of a key: the check, and its words for an error.
_Field = tuple[Callable[[object], bool], str]
_SIZE: _Field = (_is_size, "a whole number from 0 to 2**62 - 1")
_TEXT: _Field = (lambda value: isinstance(value, str), "a text")
_NAME: _Field = (lambda value: isinstance(value, str) and value != "", "a text that is not empty")
_NAMES: _Field = (_is_names, "a list of names")
_OBJECT: _Field = (lambda value: isinstance(value, dict), "an object")
_LIST: _Field = (lambda value: isinstance(value, list), "a list")
_GRAPH_FIELDS: Mapping[str, _Field] = {
    "schema_version": (lambda value: type(value) is int, "a whole number"),
    "name": _NAME,
    "metadata": _OBJECT,
    "tensors": _LIST,
    "ops": _LIST,
}
_TENSOR_FIELDS: Mapping[str, _Field] = {
    "name": _NAME,
    "size_bytes": _SIZE,
    "shape": (
        lambda value: isinstance(value, list) and all(map(_is_size, value)),
        "a list of whole numbers, none negative",
    ),
    "dtype": _TEXT,
    "role": (lambda value: value in _ROLES, f"one of {', '.join(_ROLES)}"),
    "alias_of": _NAME,
    "is_output": (lambda value: isinstance(value, bool), "true or false"),
    "memory_bytes": _SIZE,
}
_OP_FIELDS: Mapping[str, _Field] = {
    **dict.fromkeys(("name", "kind"), _NAME),
    **dict.fromkeys(("target", "module", "source"), _TEXT),
    **dict.fromkeys(("inputs", "outputs", "controls"), _NAMES),
    **dict.fromkeys(("time_ns", "workspace_bytes"), _SIZE),
    "attributes": _OBJECT,
    "phase": (lambda value: value in _PHASES, "one of forward, backward, optimizer, or empty"),
}


def _check_keys(record: object, fields: Mapping[str, _Field], where: str, required: Sequence[str]) -> None:
    """Raises InputError for an unknown key (with the nearest known one), a missing one, or a value of a wrong kind."""
    if not isinstance(record, dict):
        raise InputError(f"{where} must be a JSON object")
    for key, value in record.items():
        if key not in fields:
            nearest = difflib.get_close_matches(key[:_MAX_COMPARED], fields, n=1)
            hint = f"; did you mean '{nearest[0]}'?" if nearest else f" (known: {', '.join(fields)})"
            raise InputError(f"{where} has the unknown key '{shown(key)}'{hint}")
        accepts, words = fields[key]
        if not accepts(value):
            raise InputError(f"{where}: '{key}' must be {words}, not {json.dumps(value)[:60]}")
    for key in required:
        if key not in record:
            raise InputError(f"{where} lacks the key '{key}'")


def _label(what: str, position: int, record: object, name: str) -> str:
    named = isinstance(record, dict) and isinstance(record.get("name"), str)
    return f"'{name}': {what} '{shown(record['name'])}'" if named else f"'{name}': {what} number {position}"  # type: ignore[index]


def _add_tensors(builder: GraphBuilder, records: list[Any], name: str) -> dict[str, int]:
    """Adds all tensors and returns the index of each by name."""
    index: dict[str, int] = {}
    for position, record in enumerate(records):
        _check_keys(record, _TENSOR_FIELDS, _label("tensor", position, record, name), required=("name", "size_bytes"))
        if record["name"] in index:
            raise InputError(f"'{name}' has two tensors named '{shown(record['name'])}'")
        shape = tuple(record["shape"]) if "shape" in record else None
        index[record["name"]] = builder.add_tensor(**{**record, "shape": shape, "alias_of": None})
    for record in records:
        if "alias_of" in record:
            label = f"'{name}': tensor '{shown(record['name'])}'"
            builder.change_tensor(index[record["name"]], alias_of=_find(record["alias_of"], index, "tensor", label))
    return index


def _add_ops(builder: GraphBuilder, records: list[Any], tensor_index: dict[str, int], name: str) -> None:
    for position, record in enumerate(records):
        _check_keys(record, _OP_FIELDS, _label("op", position, record, name), required=("name", "kind"))
    op_index = {record["name"]: position for position, record in enumerate(records)}
    for record in records:
        label = f"'{name}': op '{shown(record['name'])}'"
        builder.add_op(
            **{
                **record,
                "inputs": [_find(tensor, tensor_index, "tensor", label) for tensor in record.get("inputs", ())],
                "outputs": [_find(tensor, tensor_index, "tensor", label) for tensor in record.get("outputs", ())],
                "controls": [_find(op, op_index, "op", label) for op in record.get("controls", ())],
            }
        )


def _find(wanted: str, index: Mapping[str, int], what: str, where: str) -> int:
    if wanted not in index:
        nearest = difflib.get_close_matches(
            wanted[:_MAX_COMPARED], (name for name in index if len(name) <= _MAX_COMPARED), n=1
        )
        hint = f"; did you mean '{shown(nearest[0])}'?" if nearest else ""
        raise InputError(f"{where} names the {what} '{shown(wanted)}', which does not exist{hint}")
    return index[wanted]
