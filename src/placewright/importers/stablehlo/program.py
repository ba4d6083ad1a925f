"""StableHLO text as a program of `xla`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from placewright.graph import Graph
from placewright.importers.stablehlo.details import DETAILS, numbers
from placewright.importers.stablehlo.text import Block, Function, Locations, Module, Statement, read_module
from placewright.importers.stablehlo.types import parse_types, split_signature
from placewright.importers.xla.kinds import SHARD_MARKS
from placewright.importers.xla.program import (
    Computation,
    Instruction,
    Reference,
    Type,
    leaves,
)
from placewright.importers.xla.shards import written_shardings
from placewright.importers.xla.text import Conversion
from placewright.support.errors import InputError, shown

_VALUE = re.compile(r"(%[\w$.-]+)(?:#(\d{1,6}))?")
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_BOUND = re.compile(r"(%[\w$.-]+)\s*=\s*(%[\w$.-]+(?:#\d{1,6})?)")
_CALLEE = re.compile(r"@(\"[^\"]+\"|[\w.$-]+)")
_APPLIES = re.compile(r"\bapplies\s+(?:stablehlo\.)?(\w+)")
_DECOMPOSITION = re.compile(r"\bdecomposition\s*=\s*@(\"[^\"]+\"|[\w.$-]+)")
_ALIASED = re.compile(r"tf\.aliasing_output\s*=\s*(\d{1,9})")
_RETURNS = frozenset({"return", "func.return", "stablehlo.return", "sdy.return", "mhlo.return"})
_CALLS = frozenset({"call", "func.call", "stablehlo.composite"})
_JOINED = frozenset({"reduce", "reduce-window", "scatter", "select-and-scatter"})
_SAME = frozenset({"optimization-barrier", "sharding-constraint", "reshard"})
_EFFECTS = frozenset({"infeed", "outfeed", "send", "recv"})
BYTECODE = b"ML\xefR"


def parse_stablehlo(data: bytes, name: str) -> Graph:
    """The graph of a module's function `main`, or of its only public one. Raises InputError naming file and line."""
    if data.startswith(BYTECODE):
        raise InputError(
            f"'{name}' is MLIR bytecode; write the module as text, as jax.jit(f).lower(...).as_text() does"
        )
    return _Conversion(read_module(data.decode(errors="replace"), name), name).graph()


class _Scope:
    """The values that statements of one block can read.

    groups: for ops whose results have several names: per name the op's value, the position of the first result in it,
    and how many the name covers. captured: values taken from enclosing blocks, in order of first use.
    """

    def __init__(self, arguments: dict[str, Type], outside: _Scope | None = None) -> None:
        self.types = dict(arguments)
        self.outside = outside
        self.groups: dict[str, tuple[str, int, int]] = {}
        self.captured: dict[str, Type] = {}

    def find(self, token: str) -> tuple[Reference, Type] | None:
        """The reference and type of a name such as "%0" or "%0#1"; None if it is unknown. Captures it from outside."""
        name, _, number = token.partition("#")
        if name in self.groups:
            op, first, count = self.groups[name]
            if (not number and count != 1) or int(number or 0) >= count:
                return None
            name, number = op, str(first + int(number or 0))
        if name in self.types:
            kind = self.types[name]
            if not number:
                return (name, ()), kind
            if isinstance(kind, tuple) and int(number) < len(kind):
                return (name, (int(number),)), kind[int(number)]
            return None
        found = self.outside.find(token) if self.outside else None
        if found is None:
            return None
        self.captured[token] = found[1]
        return (token, ()), found[1]


class _Conversion(Conversion[Function]):
    """One StableHLO module under conversion."""

    what = "function"

    def __init__(self, module: Module, file: str) -> None:
        super().__init__(file, module.functions)
        self.locations = Locations(module.locations)

    def graph(self) -> Graph:
        function = self._main()
        entry = self.computation(function.name, function.line)
        if len(function.body.arguments) != len(function.locations):
            raise self.error(f"'{shown(function.name)}' has blocks with arguments of their own", function.line)
        labels = [
            self.locations.label(location) or name.removeprefix("%")
            for name, location in zip(function.body.arguments, function.locations, strict=True)
        ]
        updates = self._updates(function, entry)
        if len(list(leaves(tuple(entry.parameters.values())))) != len(labels):
            raise self.error("an argument of the module is a tuple", function.line)
        metadata = {"format": "stablehlo", "source": self.file}
        return self.graph_of(entry, labels, updates, metadata, materialised=False, scopes_nest=True)

    def converted(self, part: Function) -> Computation:
        return self._block(part.body, _Scope(part.body.arguments), part.name, part.line)

    def _main(self) -> Function:
        if "main" in self.parts:
            return self.parts["main"]
        public = [function for function in self.parts.values() if function.is_public]
        if len(public) != 1:
            raise InputError(f"'{self.file}' has no function main, and {len(public)} public ones")
        return public[0]

    def _updates(self, function: Function, entry: Computation) -> dict[int, int]:
        matches = map(_ALIASED.search, function.attributes)
        found = {int(match[1]): position for position, match in enumerate(matches) if match}
        root = next((each for each in entry.instructions if each.name == entry.root[0]), None)
        count = len(list(leaves(root.type))) if root and not entry.root[1] else 1
        if any(result >= count for result in found):
            raise self.error("tf.aliasing_output names a result that does not exist", function.line)
        return found

    def _block(self, block: Block, scope: _Scope, name: str, line: int) -> Computation:
        """The computation of a function or region; the caller must add captured values to its parameters."""
        instructions: list[Instruction] = []
        root: Reference | None = None
        for statement in block.statements:
            if root is not None:
                raise self.error(f"'{shown(name)}' has returned before this line", statement.line)
            if statement.op in _RETURNS:
                references, kinds = self._operands(split_signature(statement.text)[0], statement, scope)
                root = references[0] if len(references) == 1 else ("return", ())
                if len(references) != 1:
                    instructions.append(
                        Instruction(name="return", opcode="tuple", type=tuple(kinds), operands=tuple(references))
                    )
            elif (instruction := self._instruction(statement, scope)) is not None:
                instructions.append(instruction)
        if root is None:
            raise self.error(f"'{shown(name)}' returns nothing", line)
        return Computation(name=name, parameters=block.arguments, instructions=tuple(instructions), root=root)

    def _operands(self, text: str, statement: Statement, scope: _Scope) -> tuple[list[Reference], list[Type]]:
        """References and types of a statement's operands. text: without types. Quotes, as in a kernel, are skipped."""
        text = _QUOTED.sub("", text)
        tokens = [number for _, number in _BOUND.findall(text)] or [match[0] for match in _VALUE.finditer(text)]
        found = [self._found(token, statement, scope) for token in tokens]
        return [reference for reference, _ in found], [kind for _, kind in found]

    def _found(self, token: str, statement: Statement, scope: _Scope) -> tuple[Reference, Type]:
        found = scope.find(token)
        if found is None:
            raise self.error(
                f"'{shown(statement.op)}' reads '{shown(token)}', which nothing before it makes", statement.line
            )
        return found

    def _instruction(self, statement: Statement, scope: _Scope) -> Instruction | None:
        text, signature = split_signature(statement.text)
        references, kinds = self._operands(text, statement, scope)
        results = self._results(statement, signature, kinds)
        opcode = statement.op.rpartition(".")[2].replace("_", "-")
        called, captured = self._called(statement, scope, opcode, kinds)
        if statement.regions and opcode not in ("while", "conditional", "case", "if", "manual-computation"):
            captured = []
        references += [self._found(token, statement, scope)[0] for token in captured]
        opcode, details = self._meaning(statement, text, opcode, kinds)
        if opcode == "select-and-scatter" and len(references) == 3:
            references = [references[1], references[0], references[2]]
        name = statement.name or f"line_{statement.line}"
        for each in (name, *statement.results):
            if each in scope.types or each in scope.groups:
                raise self.error(f"the value '{shown(each)}' is made twice", statement.line)
        if len(statement.results) > 1:
            first = 0
            for each, count in statement.results.items():
                scope.groups[each] = (name, first, count)
                first += count
        kind: Type = results[0] if statement.num_results == 1 and len(results) == 1 else tuple(results)
        scope.types[name] = kind
        return Instruction(
            name=name,
            opcode=opcode,
            type=kind,
            operands=tuple(references),
            details=details,
            called=called,
            target=self._target(statement),
            scope=self.locations.scope(statement.location),
            source=self.locations.source(statement.location),
            has_effect=opcode in _EFFECTS or "has_side_effect = true" in statement.text,
        )

    def _results(self, statement: Statement, signature: str, kinds: Sequence[Type]) -> list[Type]:
        """Types of the results: those after the arrow, or all that are written, or a single one repeated for all."""
        _, arrow, after = signature.rpartition("->")
        try:
            written = parse_types(after if arrow else signature)
        except InputError as error:
            raise self.error(str(error), statement.line) from error
        count = statement.num_results
        if not arrow and statement.op.endswith("select") and len(written) == 2:
            written = written[1:]
        if not arrow and len(written) == 1 and count > 1:
            written = written * count
        if len(written) != count:
            raise self.error(
                f"'{shown(statement.op)}' gives {count} values and has {len(written)} types", statement.line
            )
        return written

    def _called(
        self, statement: Statement, scope: _Scope, opcode: str, kinds: Sequence[Type]
    ) -> tuple[tuple[Computation, ...], list[str]]:
        """The computations that a statement calls, and the names of values that its regions capture."""
        if statement.op in _CALLS:
            match = (_DECOMPOSITION if statement.op == "stablehlo.composite" else _CALLEE).search(statement.text)
            if match is None:
                raise self.error("a call does not name its function", statement.line)
            return (self.computation(match[1].strip('"'), statement.line),), []
        if opcode not in ("while", "case", "if", "manual-computation"):
            return (), []
        bound = {name: kind for (name, _), kind in zip(_BOUND.findall(statement.text), kinds, strict=False)}
        inner = []
        for block in statement.regions:
            if opcode == "while":
                block.arguments = block.arguments or bound
            region = _Scope(block.arguments, scope)
            inner.append((region, self._block(block, region, statement.op, statement.line)))
        if not inner or (opcode == "while" and len(inner) != 2):
            raise self.error(f"'{shown(statement.op)}' lacks its regions", statement.line)
        captured = {token: kind for region, _ in inner for token, kind in region.captured.items()}
        computations = [replace(each, parameters={**each.parameters, **captured}) for _, each in inner]
        return tuple(computations), list(captured)

    def _meaning(
        self, statement: Statement, text: str, opcode: str, kinds: Sequence[Type]
    ) -> tuple[str, dict[str, Any]]:
        if statement.op in _CALLS:
            return "call", {}
        if opcode in ("case", "if"):
            return "conditional", {}
        if opcode in _SAME:
            return "identity", {}
        if opcode == "manual-computation":
            return "shard-map", written_shardings(statement.text)
        if opcode == "while":
            return opcode, {"carry": statement.num_results}
        if opcode == "get-tuple-element":
            return opcode, {"index": int((re.findall(r"\[(\d{1,6})\]", text) or numbers(text, "index") or [0])[0])}
        if opcode == "custom-call" and self._target(statement) in SHARD_MARKS:
            return SHARD_MARKS[self._target(statement)], written_shardings(statement.text)
        if opcode == "custom-call":
            return ("reshape" if "Sharding" in text or "SPMD" in text else opcode), {}
        shape = getattr(kinds[0], "shape", ()) if kinds else ()
        try:
            details = DETAILS[opcode](statement.text, len(shape)) if opcode in DETAILS else {}
            if opcode in _JOINED:
                details["function"] = _joining(statement)
        except (ValueError, IndexError) as error:
            raise self.error(f"the attributes of '{shown(statement.op)}' are not understood", statement.line) from error
        return opcode, details

    def _target(self, statement: Statement) -> str:
        match = _CALLEE.search(statement.text) if statement.op.endswith("custom_call") else None
        return match[1].strip('"') if match else statement.op


def _joining(statement: Statement) -> str:
    """The function that joins two elements: the one that is named, or the last op of the region."""
    if match := _APPLIES.search(statement.text):
        return match[1]
    ops = [each.op for block in statement.regions[-1:] for each in block.statements if each.op not in _RETURNS]
    return ops[-1].rpartition(".")[2] if ops else "first"
