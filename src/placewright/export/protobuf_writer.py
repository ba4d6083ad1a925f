"""Writes protocol buffer messages of a known schema, as text or binary, without the protobuf package.

What `importers/protobuf_reader.py` reads. Enums are members of an IntEnum: by name in text, by number in binary.
Source: protobuf.dev, "Encoding" and "Text Format Language Specification".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from placewright.importers.protobuf_reader import Field, Record, Schema

_VARINT, _BYTES = 0, 2
_ESCAPES = {ord('"'): '\\"', ord("\\"): "\\\\", ord("\n"): "\\n", ord("\r"): "\\r", ord("\t"): "\\t"}


def to_binary(record: Record, schema: Schema, message: str) -> bytes:
    """The message in wire format, its fields in the order of their numbers."""
    data = bytearray()
    for number, field in sorted(schema[message].items()):
        for value in _values(record, field):
            if field.kind in schema:
                _append_bytes(data, number, to_binary(value, schema, field.kind))
            elif field.kind == "string":
                _append_bytes(data, number, value.encode("utf-8", "backslashreplace"))
            else:
                _append_varint(data, number << 3 | _VARINT)
                _append_varint(data, int(value) & (2**64 - 1))
    return bytes(data)


def to_text(record: Record, schema: Schema, message: str) -> str:
    """The message in text format, a field to a line."""
    return "".join(f"{line}\n" for line in _lines(record, schema, message, ""))


def _values(record: Record, field: Field) -> list[Any]:
    if field.name not in record:
        return []
    value = record[field.name]
    return list(value) if field.repeated else [value]


def _append_varint(data: bytearray, value: int) -> None:
    while value > 0x7F:
        data.append(value & 0x7F | 0x80)
        value >>= 7
    data.append(value)


def _append_bytes(data: bytearray, number: int, value: bytes) -> None:
    _append_varint(data, number << 3 | _BYTES)
    _append_varint(data, len(value))
    data += value


def _lines(record: Record, schema: Schema, message: str, indent: str) -> Iterator[str]:
    for _, field in sorted(schema[message].items()):
        for value in _values(record, field):
            if field.kind in schema:
                yield f"{indent}{field.name} {{"
                yield from _lines(value, schema, field.kind, f"{indent}  ")
                yield f"{indent}}}"
            else:
                yield f"{indent}{field.name}: {_scalar(field, value)}"


def _scalar(field: Field, value: Any) -> str:
    if field.kind == "string":
        return f'"{_escaped(value)}"'
    if field.kind == "bool":
        return "true" if value else "false"
    return str(value.name) if field.kind == "enum" else str(int(value))


def _escaped(text: str) -> str:
    whole = text.encode("utf-8", "backslashreplace").decode().translate(_ESCAPES)
    return "".join(char if char.isprintable() else "".join(f"\\{byte:03o}" for byte in char.encode()) for char in whole)
