"""StableHLO text taken apart: functions, statements, and the regions inside them, as MLIR prints them line by line,
and the scopes, names and source lines of its locations.

Source: the StableHLO specification, and MLIR's language reference.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from placewright.importers.source_lines import without_directory
from placewright.importers.stablehlo.types import end_of_brackets, parse_type, pieces
from placewright.importers.xla.program import MAX_DEPTH, Type
from placewright.importers.xla.text import Lines
from placewright.support.errors import InputError, shown

_FUNCTION = re.compile(r"func\.func\s+(?:(public|private|nested)\s+)?@(\"[^\"]+\"|[\w.$-]+)\s*\(")
_RESULT = r"%[\w$.-]+(?::\d{1,6})?"
_STATEMENT = re.compile(rf"(?:({_RESULT}(?:\s*,\s*{_RESULT})*)\s*=\s*)?(?:\"([\w.]+)\"|([\w.]+))")
_ARGUMENT = re.compile(r"(%[\w$.-]+)\s*:\s*(.*)", re.DOTALL)
#: Arguments of a region that are written before it.
_GIVEN = re.compile(r"\((?:%[\w$.-]+\s*:.*)?\)\s*$", re.DOTALL)
_LOCATION = re.compile(r"\s+loc\((#loc\d*|unknown|\".*|callsite.*|fused.*)\)$")
_LOCATION_LINE = re.compile(r"(#loc\d*)\s*=\s*loc\((.*)\)$")
#: Lines that continue the statement before them.
_CONTINUED = re.compile(r"(?:cond\b|do\b|reducer\s*\(|attributes\s*\{)")
#: Lines that compute nothing.
_IGNORED = re.compile(r"(?:sdy\.mesh|module\b|#|//|\{-#|#-\}|\})")


@dataclass
class Statement:
    """One op: its text without results, regions and location.

    results: per name, how many results it covers.
    """

    line: int
    results: Mapping[str, int]
    op: str
    text: str
    location: str
    regions: list[Block] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The name of its first result; empty where it has none."""
        return next(iter(self.results), "")

    @property
    def num_results(self) -> int:
        return sum(self.results.values())


@dataclass
class Block:
    """Statements of a region or function, and its arguments."""

    arguments: dict[str, Type] = field(default_factory=dict)
    statements: list[Statement] = field(default_factory=list)


@dataclass
class Function:
    """A function. attributes, locations: per argument, as text."""

    name: str
    line: int
    is_public: bool
    body: Block
    attributes: list[str]
    locations: list[str]


@dataclass
class Module:
    """Functions by name, and locations by alias, such as "#loc7"."""

    functions: dict[str, Function]
    locations: Mapping[str, str]


def read_module(text: str, file: str) -> Module:
    """The module in a text. Raises InputError naming file and line."""
    reader = _Reader(text, file)
    functions = reader.read()
    locations = {match[1]: match[2] for line in reader.lines if (match := _LOCATION_LINE.match(line.strip()))}
    return Module(functions, locations)


class _Reader(Lines):
    """Reads functions line by line."""

    def read(self) -> dict[str, Function]:
        functions: dict[str, Function] = {}
        while self.at < len(self.lines):
            line = self.next()
            if match := _FUNCTION.match(line):
                function = self._function(line, match)
                if function.name in functions:
                    raise self.error(f"the function '{shown(function.name)}' stands there twice", function.line)
                functions[function.name] = function
            elif line and not _IGNORED.match(line):
                raise self.error(f"'{shown(line)}' is no function")
        if not functions:
            raise InputError(f"'{self.file}' holds no function")
        return functions

    def _function(self, line: str, match: re.Match[str]) -> Function:
        number = self.at
        close = end_of_brackets(line, match.end() - 1)
        if close < 0 or not line.endswith("{"):
            raise self.error("a function must begin with its arguments and results in one line")
        body = Block()
        attributes, locations = [], []
        for piece in pieces(line[match.end() : close - 1]):
            name, kind, attribute, location = self._argument(piece)
            if name in body.arguments:
                raise self.error(f"two arguments are named '{shown(name)}'")
            body.arguments[name] = kind
            attributes.append(attribute)
            locations.append(location)
        self._block(body, 0)
        return Function(match[2].strip('"'), number, match[1] != "private", body, attributes, locations)

    def _argument(self, piece: str) -> tuple[str, Type, str, str]:
        """Name, type, attributes and location of "%arg0: tensor<f32> {...} loc(...)"."""
        text, location = _without_location(piece)
        match = _ARGUMENT.fullmatch(text)
        if match is None:
            raise self.error(f"'{shown(piece)}' is no argument with a type")
        kind, brace, attributes = match[2].partition(" {")
        return match[1], self._type(kind), brace + attributes, location

    def _type(self, text: str) -> Type:
        try:
            return parse_type(text)
        except InputError as error:
            raise self.error(str(error)) from error

    def _block(self, block: Block, depth: int) -> str:
        """Reads up to the line that closes the block, and returns that line."""
        if depth > MAX_DEPTH:
            raise self.error("regions are nested too deeply")
        begin = self.at
        while self.at < len(self.lines):
            line = self.next()
            if line.startswith("}"):
                return line
            if line.startswith("^"):
                self._block_arguments(line, block)
            elif _CONTINUED.match(line) and block.statements:
                if line.endswith("{"):
                    self._regions(block.statements[-1], depth)
            elif line and not line.startswith("//"):
                block.statements.append(self._statement(line, depth))
        raise self.error("what begins here does not end", begin)

    def _block_arguments(self, line: str, block: Block) -> None:
        begin = line.find("(")
        close = end_of_brackets(line, begin) if begin >= 0 else -1
        for piece in pieces(line[begin + 1 : close - 1]) if close > 0 else ():
            name, kind, _, _ = self._argument(piece)
            block.arguments[name] = kind

    def _statement(self, line: str, depth: int) -> Statement:
        match = _STATEMENT.match(line)
        if match is None:
            raise self.error(f"'{shown(line)}' is no statement")
        text, location = _without_location(line[match.end() :])
        opens = text.endswith("{")
        results: dict[str, int] = {}
        for result in match[1].split(",") if match[1] else ():
            name, _, count = result.strip().partition(":")
            if name in results:
                raise self.error(f"the value '{shown(name)}' is made twice")
            results[name] = int(count or 1)
        op = match[2] or match[3]
        text = text.removesuffix("{").removesuffix("(")
        given = _GIVEN.search(text) if opens and op == "sdy.manual_computation" else None
        statement = Statement(self.at, results, op, text[: given.start()] if given else text, location)
        if opens:
            self._regions(statement, depth)
        if given is not None:
            self._block_arguments(given[0], statement.regions[0])
        return statement

    def _regions(self, statement: Statement, depth: int) -> None:
        """Reads the regions of a statement; text after the last one belongs to the statement."""
        closing = "{"
        while closing.endswith("{"):
            block = Block()
            closing = self._block(block, depth + 1)
            statement.regions.append(block)
        tail, location = _without_location(closing.lstrip("})"))
        statement.text += tail
        statement.location = location or statement.location


def _without_location(text: str) -> tuple[str, str]:
    """The text before a location at its end, and that location."""
    match = _LOCATION.search(text) if "loc(" in text else None
    return (text[: match.start()], match[1]) if match else (text, "")


_NAMED = re.compile(r'"((?:[^"\\]|\\.)*)"(?:\((#loc\d*)\))?$')
_FILE = re.compile(r'"((?:[^"\\]|\\.)*)":(\d{1,9}):\d')
_FIRST = re.compile(r"(?:callsite\(|fused[^#]*\[?)\s*(#loc\d*)")
_MAX_STEPS = 32


class Locations:
    """The locations of a module. table: the location behind each alias, such as "#loc7"."""

    def __init__(self, table: Mapping[str, str]) -> None:
        self.table = table
        self.scope = lru_cache(maxsize=None)(self._scope)
        self.source = lru_cache(maxsize=None)(self._source)

    def label(self, location: str) -> str:
        """The name that an argument has in Python."""
        match = _NAMED.match(self.table.get(location, location))
        return match[1] if match and not match[2] else ""

    def _scope(self, location: str) -> str:
        """Path of named scopes and transformations."""
        match = _NAMED.match(self.table.get(location, location))
        return match[1] if match else ""

    def _source(self, location: str) -> str:
        """ "file.py:line" of the innermost place."""
        for _ in range(_MAX_STEPS):
            location = self.table.get(location, location)
            if match := _FILE.match(location):
                return f"{without_directory(match[1])}:{match[2]}"
            following = _NAMED.match(location) or _FIRST.match(location)
            target = following[following.lastindex or 0] if following else None
            if not target or not target.startswith("#loc"):
                return ""
            location = target
        return ""
