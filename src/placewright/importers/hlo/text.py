"""HLO text taken apart: the module's header, its tables of source lines, its computations line by line.

Source: xla/hlo/parser and the text that XLA prints.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from placewright.importers.hlo.types import end_of_brackets, pieces, type_at
from placewright.importers.xla.program import Type
from placewright.importers.xla.text import Lines
from placewright.support.errors import InputError, shown

_HEADER = re.compile(r"HloModule\s+([^\s,]+)\s*(?:,\s*(.*))?$")
_COMPUTATION = re.compile(r"(ENTRY\s+)?%?([\w.~-]+)\s*(?:\(.*\)\s*->\s*.*)?\{\s*$")
_INSTRUCTION = re.compile(r"(ROOT\s+)?%?([\w.~-]+)\s*=\s*")
_OPCODE = re.compile(r"\s*([a-z][\w-]*)\(")
_COMMENT = re.compile(r"/\*.*?\*/")
_TABLES = ("FileNames", "FunctionNames", "FileLocations", "StackFrames")
_ROW = re.compile(r"(\d{1,9})\s+(.*)$")


@dataclass(frozen=True, slots=True)
class RawInstruction:
    """One line: operands and attributes as they are written."""

    name: str
    opcode: str
    type: Type
    operands: str
    attributes: Mapping[str, str]
    line: int
    is_root: bool


@dataclass
class RawComputation:
    """The instructions of one computation, as written in the file."""

    name: str
    line: int
    instructions: list[RawInstruction] = field(default_factory=list)

    @property
    def root(self) -> RawInstruction:
        """The instruction whose value it returns: the one marked as ROOT, or the last one."""
        return next((each for each in self.instructions if each.is_root), self.instructions[-1])


@dataclass
class RawModule:
    """A module as written in the file. tables: for each table's name, its rows by number."""

    name: str
    attributes: Mapping[str, str]
    computations: dict[str, RawComputation] = field(default_factory=dict)
    entry: str = ""
    tables: dict[str, dict[int, str]] = field(default_factory=dict)


def read_module(text: str, file: str) -> RawModule:
    """The module in a text. Raises InputError naming file and line."""
    return _Reader(text, file).read()


class _Reader(Lines):
    """Reads a module line by line."""

    def read(self) -> RawModule:
        module = self._header()
        while self.at < len(self.lines):
            line = self.next()
            if line in _TABLES:
                module.tables[line] = self._table()
            elif match := _COMPUTATION.match(line):
                computation = self._computation(match[2])
                if computation.name in module.computations:
                    raise self.error(
                        f"the computation '{shown(computation.name)}' stands there twice", computation.line
                    )
                module.computations[computation.name] = computation
                if match[1]:
                    module.entry = computation.name
            elif line and not line.startswith("//"):
                raise self.error(f"'{shown(line)}' begins no computation")
        if not module.entry:
            raise InputError(f"'{self.file}' has no ENTRY computation")
        return module

    def next(self) -> str:
        return _COMMENT.sub("", super().next())

    def _header(self) -> RawModule:
        while self.at < len(self.lines):
            line = self.next()
            if match := _HEADER.match(line):
                return RawModule(match[1], _attributes(match[2] or ""))
            if line and not line.startswith("//"):
                break
        raise InputError(f"'{self.file}' does not begin with HloModule, so it is no HLO text")

    def _table(self) -> dict[int, str]:
        rows = {}
        while self.at < len(self.lines) and (match := _ROW.match(self.lines[self.at].strip())):
            rows[int(match[1])] = match[2]
            self.at += 1
        return rows

    def _computation(self, name: str) -> RawComputation:
        computation = RawComputation(name, self.at)
        while self.at < len(self.lines):
            line = self.next()
            if line.startswith("}"):
                if not computation.instructions:
                    raise self.error(f"the computation '{shown(name)}' is empty", computation.line)
                return computation
            if line and not line.startswith("//"):
                computation.instructions.append(self._instruction(line))
        raise self.error(f"the computation '{shown(name)}' does not end", computation.line)

    def _instruction(self, line: str) -> RawInstruction:
        number, line = self.at, self._whole(line)
        try:
            if (begin := _INSTRUCTION.match(line)) is None:
                raise InputError(f"'{shown(line)}' is no instruction")
            kind, end = type_at(line, begin.end())
            if (opcode := _OPCODE.match(line, end)) is None:
                raise InputError(f"'{shown(begin[2])}' has no operation with operands in brackets")
            close = end_of_brackets(line, opcode.end() - 1)
            if close < 0:
                raise InputError(f"the operands of '{shown(begin[2])}' do not end")
        except InputError as error:
            raise self.error(str(error), number) from error
        operands, attributes = line[opcode.end() : close - 1], _attributes(line[close:].lstrip(", "))
        return RawInstruction(begin[2], opcode[1], kind, operands, attributes, number, bool(begin[1]))

    def _whole(self, line: str) -> str:
        """The line, joined with the next ones where it begins a constant of several lines."""
        parts, open_brackets = [line], line.count("(") - line.count(")")
        while open_brackets > 0 and " constant(" in parts[0] and self.at < len(self.lines):
            parts.append(self.next())
            open_brackets += parts[-1].count("(") - parts[-1].count(")")
        return " ".join(parts)


def _attributes(text: str) -> dict[str, str]:
    """The values written as name=value, by name."""
    found = {}
    for piece in pieces(text):
        name, equals, value = piece.partition("=")
        if equals:
            found[name] = value
    return found
