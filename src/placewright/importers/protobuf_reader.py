"""Reads protocol buffer messages of a known schema, as text or binary, without the protobuf package.

It knows what CostGraphDef needs: nested messages, strings, integers, booleans, enums and floats, repeated or not.
Source: protobuf.dev, "Encoding" and "Text Format Language Specification".
"""

from __future__ import annotations

import difflib
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from placewright.support.errors import InputError, shown

_VARINT, _BYTES, _FIXED32 = 0, 2, 5
#: A comment, or the token in the first group. A quote that is not closed on its line takes the rest of it, else every
#: quote behind it would be tried in turn; any other character is a token of its own, which fits nowhere.
_TOKEN = re.compile(
    r"""\#[^\n]* | ([][{}<>:,;] | [A-Za-z_]\w* | [-+]?[\w.]+(?:(?<=[eE])[-+]\d+)?
                   | "(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)*' | ["'].* | \S)
    """,
    re.VERBOSE,
)
_CLOSED = re.compile(r""" "(?:[^"\\]|\\.)*" | '(?:[^'\\]|\\.)*' """, re.VERBOSE)
_ESCAPE = re.compile(rb"\\([0-7]{1,3}|[xX][0-9a-fA-F]{1,2}|.)", re.DOTALL)
_ESCAPED = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"a": b"\a", b"b": b"\b", b"f": b"\f", b"v": b"\v"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One field of a message.

    kind: "string", "int32", "int64", "bool", "float", "enum", or the name of another message of the schema.
    """

    name: str
    kind: str
    repeated: bool = False


#: The fields of each message by number.
Schema = Mapping[str, Mapping[int, Field]]
Record = dict[str, Any]


class _ValueError(Exception):
    """A value that its field cannot hold; the caller knows where it stands."""


def _integer(field: Field, value: int) -> int:
    limit = 2**63 if field.kind == "int64" else 2**31
    if not -limit <= value < limit:
        raise _ValueError(f"{field.name} {shown(value)} does not fit {field.kind}")
    return value


def _store(record: Record, field: Field, value: Any) -> None:
    if field.repeated:
        record.setdefault(field.name, []).append(value)
    else:
        record[field.name] = value


class TextReader:
    """A message in text format. Errors name the line."""

    def __init__(self, text: str, schema: Schema, source: str) -> None:
        self._text, self._schema, self._source = text, schema, source
        self._fields = {message: {field.name: field for field in fields.values()} for message, fields in schema.items()}
        self._tokens: list[str] = [token for token in _TOKEN.findall(text) if token]
        self._tokens.append("")
        self._position = 0

    def read(self, message: str) -> Record:
        """The whole text as one message: values by field name, fields left out absent."""
        return self._message(message, end="")

    def _error(self, problem: str) -> InputError:
        starts = [match.start() for match in _TOKEN.finditer(self._text) if match[1]] + [len(self._text)]
        line = self._text.count("\n", 0, starts[self._position]) + 1
        return InputError(f"'{self._source}', line {line}: {problem}")

    def _next(self) -> str:
        token = self._tokens[self._position]
        self._position += 1
        return token

    def _skip(self, *tokens: str) -> bool:
        if self._tokens[self._position] in tokens:
            self._position += 1
            return True
        return False

    def _message(self, message: str, end: str) -> Record:
        record: Record = {}
        fields = self._fields[message]
        while (token := self._tokens[self._position]) != end:
            if token not in fields:
                raise self._error(self._unknown(token, message))
            self._position += 1
            self._values(record, fields[token])
            self._skip(",", ";")
        self._position += 1
        return record

    def _unknown(self, token: str, message: str) -> str:
        if not token:
            return f"the file ends inside a {message}"
        nearest = difflib.get_close_matches(token[:200], self._fields[message], n=1)
        return f"'{shown(token)}' is no field of {message}" + (f"; did you mean '{nearest[0]}'?" if nearest else "")

    def _values(self, record: Record, field: Field) -> None:
        """One value, or several in square brackets."""
        colon = self._skip(":")
        if not colon and field.kind not in self._schema:
            raise self._error(f"{field.name} must be followed by a colon")
        if not self._skip("["):
            _store(record, field, self._value(field))
            return
        while not self._skip("]"):
            _store(record, field, self._value(field))
            if not self._skip(",") and self._tokens[self._position] != "]":
                raise self._error(f"the list of {field.name} is not closed")

    def _value(self, field: Field) -> Any:
        token = self._tokens[self._position]
        if field.kind in self._schema:
            if token not in ("{", "<"):
                raise self._error(f"{field.name} must be followed by a message in braces")
            self._position += 1
            return self._message(field.kind, end="}" if token == "{" else ">")
        try:
            return self._text_value() if field.kind == "string" else _scalar(field, self._next())
        except (_ValueError, UnicodeDecodeError) as error:
            self._position -= 1
            raise self._error(str(error)) from error

    def _text_value(self) -> str:
        """One or more quoted pieces, which belong together."""
        pieces = []
        while (token := self._tokens[self._position])[:1] in ('"', "'") and len(token) > 1:
            self._position += 1
            if not _CLOSED.fullmatch(token):
                raise _ValueError("a text is not closed on its line")
            pieces.append(token[1:-1])
        if not pieces:
            self._position += 1
            raise _ValueError("a text in quotes was expected")
        body = "".join(pieces)
        return body if "\\" not in body else _ESCAPE.sub(_unescape, body.encode()).decode()


def _unescape(match: re.Match[bytes]) -> bytes:
    code = match[1]
    if code[:1] in b"xX" and len(code) > 1:
        return bytes([int(code[1:], 16)])
    if code[:1] in b"01234567":
        return bytes([int(code, 8) & 0xFF])
    return _ESCAPED.get(code, code)


def _scalar(field: Field, token: str) -> Any:
    try:
        if field.kind == "float":
            return float(token.removesuffix("f"))
        if field.kind == "bool":
            return {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}[token.lower()]
        if field.kind == "enum" and token.isidentifier():
            return token
        octal = len(token.lstrip("+-")) > 1 and token.lstrip("+-").isdigit() and token.lstrip("+-")[0] == "0"
        return _integer(field, int(token, 8 if octal else 0))
    except (ValueError, KeyError) as error:
        raise _ValueError(f"'{shown(token)}' is no value for {field.name}") from error


class BinaryReader:
    """A message in wire format. Errors name the byte."""

    def __init__(self, data: bytes, schema: Schema, source: str) -> None:
        self._data, self._schema, self._source = data, schema, source
        self._position = 0

    def read(self, message: str) -> Record:
        """The whole data as one message: values by field name, fields left out absent."""
        return self._message(message, len(self._data))

    def _error(self, problem: str) -> InputError:
        return InputError(f"'{self._source}', byte {self._position}: {problem}")

    def _message(self, message: str, end: int) -> Record:
        record: Record = {}
        fields = self._schema[message]
        while self._position < end:
            tag = self._varint(end)
            field = fields.get(tag >> 3)
            if field is None:
                raise self._error(f"field number {tag >> 3} is unknown in {message}, so this is another kind of file")
            try:
                self._values(record, field, tag & 7, end)
            except (_ValueError, UnicodeDecodeError) as error:
                raise self._error(str(error)) from error
        return record

    def _values(self, record: Record, field: Field, wire_type: int, end: int) -> None:
        integral = field.kind in ("int32", "int64", "bool", "enum")
        if wire_type == _VARINT and integral:
            _store(record, field, self._integer(field, end))
        elif wire_type == _BYTES and integral and field.repeated:
            stop = self._length(end)
            while self._position < stop:
                _store(record, field, self._integer(field, stop))
        elif wire_type == _FIXED32 and field.kind == "float":
            _store(record, field, struct.unpack("<f", self._take(4, end))[0])
        elif wire_type == _BYTES and field.kind == "string":
            _store(record, field, self._take(self._length(end) - self._position, end).decode())
        elif wire_type == _BYTES and field.kind in self._schema:
            _store(record, field, self._message(field.kind, self._length(end)))
        else:
            raise _ValueError(f"{field.name} has wire type {wire_type}, which cannot hold it")

    def _integer(self, field: Field, end: int) -> int | bool:
        value = self._varint(end)
        if field.kind == "bool":
            return value != 0
        return _integer(field, value - 2**64 if value >= 2**63 else value)

    def _varint(self, end: int) -> int:
        value = shift = 0
        while self._position < end and shift < 64:
            byte = self._data[self._position]
            self._position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value & (2**64 - 1)
            shift += 7
        raise self._error("the file ends inside a number" if shift < 64 else "a number is longer than ten bytes")

    def _length(self, end: int) -> int:
        """Where the length-delimited value that starts here ends."""
        length = self._varint(end)
        if length > end - self._position:
            raise self._error(f"{length} bytes were announced and {end - self._position} are left: the file is cut off")
        return self._position + length

    def _take(self, size: int, end: int) -> bytes:
        if size > end - self._position:
            raise self._error("the file is cut off")
        self._position += size
        return self._data[self._position - size : self._position]
