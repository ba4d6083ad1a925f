"""HLO text as a program of `xla`. A scheduled module keeps its order, which is the one XLA would run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from placewright.graph import Graph
from placewright.importers.hlo.details import DETAILS, convolution, library_product, scan, window
from placewright.importers.hlo.text import RawComputation, RawInstruction, RawModule, read_module
from placewright.importers.hlo.types import pieces
from placewright.importers.source_lines import without_directory
from placewright.importers.xla.kinds import SHARD_MARKS
from placewright.importers.xla.program import (
    Array,
    Computation,
    Instruction,
    leaf_of,
    leaves,
    whole_numbers,
)
from placewright.importers.xla.shards import written_shardings
from placewright.importers.xla.text import Conversion
from placewright.support.errors import shown

#: Per opcode, the attributes that name the computations it calls, where these do more than join two elements.
_CALLED = {
    "fusion": ("calls",),
    "call": ("to_apply",),
    "scan": ("to_apply",),
    "while": ("condition", "body"),
    "conditional": ("branch_computations", "true_computation", "false_computation"),
    "async-start": ("calls", "to_apply"),
}
#: Per opcode, the attribute that names the function that joins two elements.
_JOINING = {"reduce": "to_apply", "reduce-window": "to_apply", "scatter": "to_apply", "select-and-scatter": "scatter"}
_MARKS = frozenset(["Sharding", "xla.sdy.FuncResultSharding", "annotate_device_placement"])
#: Calls that move arrays to the host's memory and back.
_MOVES = ("MoveToHost", "MoveToDevice")
_LIBRARY = {"TopK": "topk", "__cub$DeviceRadixSort": "sort", "cu_threefry2x32": "threefry2x32"}
_LIBRARIES = ("__cublas", "__cudnn", "__onednn")
_EFFECTS = ("infeed", "outfeed", "send", "recv", "send-done", "recv-done")
_ALIAS = re.compile(r"\{([\d,\s]*)\}\s*:\s*\(\s*(\d{1,9})\s*,\s*\{([\d,\s]*)\}")
_STRING = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_SOURCE_LINE = re.compile(r"\bsource_line=(\d{1,9})")
_FRAME_ID = re.compile(r"\bstack_frame_id=(\d{1,9})")
_NUMBER = re.compile(r"\b([a-z_]+)=(\d{1,9})\b")


def parse_hlo(data: bytes, name: str) -> Graph:
    """The graph of a module's ENTRY computation. Raises InputError naming the file and the line."""
    module = read_module(data.decode(errors="replace"), name)
    return _Conversion(module, name).graph()


class _Conversion(Conversion[RawComputation]):
    """One HLO module under conversion."""

    def __init__(self, module: RawModule, file: str) -> None:
        super().__init__(file, module.computations)
        self.module = module
        self.source_of_frame = lru_cache(maxsize=None)(self._source_of_frame)

    def graph(self) -> Graph:
        entry = self.computation(self.module.entry, 0)
        is_scheduled = self.module.attributes.get("is_scheduled") == "true"
        metadata = {"format": "hlo", "source": self.file, "module": self.module.name, "scheduled": is_scheduled}
        labels, updates = self._labels(entry), self._updates(entry)
        return self.graph_of(entry, labels, updates, metadata, materialised=is_scheduled, scopes_nest=False)

    def converted(self, raw: RawComputation) -> Computation:
        types: dict[str, Any] = {}
        numbered: dict[int, RawInstruction] = {}
        instructions = []
        root = raw.instructions[-1]
        for each in raw.instructions:
            if each.name in types:
                raise self.error(f"two instructions are named '{shown(each.name)}'", each.line)
            if each.opcode == "parameter":
                number = whole_numbers(each.operands)[:1]
                if not number or number[0] in numbered:
                    raise self.error(f"the parameter '{shown(each.name)}' has no number of its own", each.line)
                numbered[number[0]] = each
            else:
                instructions.append(self._instruction(each, types))
            types[each.name] = each.type
            root = each if each.is_root else root
        if sorted(numbered) != list(range(len(numbered))):
            raise self.error(f"the parameters of '{shown(raw.name)}' are not numbered from 0", raw.line)
        parameters = {numbered[number].name: numbered[number].type for number in range(len(numbered))}
        return Computation(name=raw.name, parameters=parameters, instructions=tuple(instructions), root=(root.name, ()))

    def _instruction(self, raw: RawInstruction, types: Mapping[str, Any]) -> Instruction:
        operands = [] if raw.opcode == "constant" else [_operand(piece) for piece in pieces(raw.operands)]
        for operand in operands:
            if operand not in types:
                raise self.error(
                    f"'{shown(raw.name)}' reads '{shown(operand)}', which nothing before it makes", raw.line
                )
        try:
            opcode, details, target = self._meaning(raw, [types[operand] for operand in operands])
        except (ValueError, IndexError, KeyError) as error:
            raise self.error(
                f"the attributes of '{shown(raw.name)}' are not those of {raw.opcode}", raw.line
            ) from error
        if opcode == "select-and-scatter" and len(operands) == 3:
            operands = [operands[1], operands[0], operands[2]]
        metadata = raw.attributes.get("metadata", "")
        side_effect = raw.attributes.get("custom_call_has_side_effect") == "true"
        return Instruction(
            name=raw.name,
            opcode=opcode,
            type=raw.type.at_host() if target == "MoveToHost" and isinstance(raw.type, Array) else raw.type,
            operands=tuple([(operand, ()) for operand in operands]),
            details=details,
            called=tuple(self._called(raw, opcode)),
            controls=tuple(_names(raw.attributes.get("control-predecessors", ""))),
            target=target,
            scope=_strings(metadata).get("op_name", "") if metadata else "",
            source=self._source(metadata) if metadata else "",
            has_effect=side_effect or opcode in _EFFECTS,
        )

    def _meaning(self, raw: RawInstruction, types: list[Any]) -> tuple[str, dict[str, Any], str]:
        """Opcode, details and target. Raises ValueError, IndexError or KeyError for missing or malformed attributes."""
        opcode = raw.opcode
        if opcode == "custom-call":
            opcode, details, target = _library_call(raw)
            return opcode, {**details, "ends_in_scratch": _ends_in_scratch(raw.type, target)}, target
        details = DETAILS[opcode](raw.attributes) if opcode in DETAILS else {}
        if opcode in ("reduce-window", "select-and-scatter"):
            details = window(raw.attributes, len(next(leaves(types[0])).shape))
        if opcode == "scan":
            details = scan(raw.attributes, [list(leaves(each)) for each in (tuple(types), raw.type)])
        if opcode in _JOINING:
            details["function"] = self._joining(raw)
        if opcode == "constant" and isinstance(raw.type, Array) and "int" in raw.type.dtype and raw.type.shape == ():
            details = {"number": int(raw.operands)}
        return "identity" if opcode == "opt-barrier" else opcode, details, opcode

    def _joining(self, raw: RawInstruction) -> str:
        """The function at the root of the computation that joins two elements."""
        (name,) = _names(raw.attributes[_JOINING[raw.opcode]])
        return self.parts[name].root.opcode

    def _called(self, raw: RawInstruction, opcode: str) -> list[Computation]:
        wanted = _CALLED.get(opcode)
        if wanted is None:
            return []
        names = [name for attribute in wanted for name in _names(raw.attributes.get(attribute, ""))]
        if not names or (opcode == "while" and len(names) != 2):
            raise self.error(f"'{shown(raw.name)}' does not name what it calls", raw.line)
        return [self.computation(name, raw.line) for name in names]

    def _labels(self, entry: Computation) -> list[str]:
        """Names of the leaves of the entry's parameters: JAX's name where it is given, else the parameter's own."""
        raw = {each.name: each for each in self.parts[self.module.entry].instructions}
        labels = []
        for name, kind in entry.parameters.items():
            label = _strings(raw[name].attributes.get("metadata", "")).get("op_name") or name
            count = len(list(leaves(kind)))
            labels += [label] if count == 1 else [f"{label}:{place}" for place in range(count)]
        return labels

    def _updates(self, entry: Computation) -> dict[int, int]:
        """Maps leaves of the root to the parameter leaf whose memory each takes, as input_output_alias says."""
        root = self.parts[self.module.entry].root.type
        kinds = tuple(entry.parameters.values())
        found: dict[int, int] = {}
        for output, number, path in _ALIAS.findall(self.module.attributes.get("input_output_alias", "")):
            result = leaf_of(root, whole_numbers(output))
            parameter = leaf_of(kinds, (int(number), *whole_numbers(path)))
            if result is None or parameter is None:
                raise self.error("input_output_alias names a result or parameter that does not exist", 1)
            if parameter not in found.values():
                found[result] = parameter
        return found

    def _source(self, metadata: str) -> str:
        """ "file.py:line" of an op."""
        strings = _strings(metadata)
        if "source_file" in strings:
            line = _SOURCE_LINE.search(metadata)
            return f"{without_directory(strings['source_file'])}:{line[1] if line else 0}"
        frame_id = _FRAME_ID.search(metadata)
        return self.source_of_frame(int(frame_id[1])) if frame_id else ""

    def _source_of_frame(self, number: int) -> str:
        """ "file.py:line" of a stack frame, from the tables at the beginning of the file."""
        frame = self._row("StackFrames", number)
        place = self._row("FileLocations", frame.get("file_location_id", 0))
        file = self.module.tables.get("FileNames", {}).get(place.get("file_name_id", 0), "").strip('"')
        return f"{without_directory(file)}:{place.get('line', 0)}" if file else ""

    def _row(self, table: str, number: int) -> dict[str, int]:
        return {name: int(value) for name, value in _NUMBER.findall(self.module.tables.get(table, {}).get(number, ""))}


def _library_call(raw: RawInstruction) -> tuple[str, dict[str, Any], str]:
    """Opcode, details and target of a call of code outside HLO; "custom-call" for an unknown target."""
    target = raw.attributes.get("custom_call_target", "").strip('"')
    if target in SHARD_MARKS:
        return SHARD_MARKS[target], written_shardings(raw.attributes.get("frontend_attributes", "")), target
    if target in _MARKS:
        return "reshape", {}, target
    if target in _MOVES:
        return "copy", {}, target
    if "matmul" in target or "gemm" in target:
        details = library_product(raw.attributes)
        if details is not None:
            return "dot", details, target
    if target.startswith("__cudnn$conv") and target.endswith("Forward"):
        return "convolution", convolution(raw.attributes), target
    return _LIBRARY.get(target, "custom-call"), {}, target or "custom-call"


def _ends_in_scratch(kind: Any, target: str) -> bool:
    """True if the last result is scratch memory of the library."""
    if not isinstance(kind, tuple) or len(kind) < 2 or not target.startswith(_LIBRARIES):
        return False
    last = kind[-1]
    return isinstance(last, Array) and last.dtype in ("int8", "uint8") and len(last.shape) == 1


def _operand(text: str) -> str:
    """The name of an operand, which its type may precede."""
    return text.rpartition(" ")[2].removeprefix("%")


def _names(text: str) -> list[str]:
    return [piece.strip().removeprefix("%") for piece in text.strip("{} ").split(",") if piece.strip()]


@lru_cache(maxsize=4096)
def _strings(metadata: str) -> dict[str, str]:
    """Texts in quotes by their names, unescaped."""
    return {name: re.sub(r"\\(.)", r"\1", text) if "\\" in text else text for name, text in _STRING.findall(metadata)}
