"""Trip counts of loops whose condition compares a counter with a constant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from placewright.importers.xla.program import Computation, Instruction, Reference, leaf_of, leaves

#: Opcodes that pass on the whole number that they read.
_PASSING = frozenset({"copy", "bitcast", "convert", "convert-element-type", "reshape"})
_DIRECTIONS = {"lt": "LT", "le": "LE"}


@dataclass(frozen=True)
class _Leaf:
    """A value that is a leaf of a computation's parameters."""

    position: int


def trip_count(loop: Instruction, flat: Sequence[Any]) -> int | None:
    """Trip count of a loop whose counter starts at a constant, grows by one, and is compared with a constant; None for
    any other loop.

    flat: leaves of the loop's operands: constants of the condition, constants of the body, carried values.
    """
    condition, body = loop.called
    skip, consts = loop.details.get("skip", 0), loop.details.get("consts", 0)
    compare = _resolved(condition, condition.root)
    if not isinstance(compare, Instruction) or len(compare.operands) != 2:
        return None
    direction = compare.details.get("direction") or _DIRECTIONS.get(compare.opcode)
    counter = _resolved(condition, compare.operands[0])
    bound = _resolved(condition, compare.operands[1])
    if direction not in ("LT", "LE") or not isinstance(counter, _Leaf):
        return None
    place = counter.position - skip
    start, last = _number(counter, flat, consts), _number(bound, flat, 0)
    if isinstance(bound, _Leaf) and bound.position >= skip:
        # Parameters after the results were captured and cannot change; a result must be passed on unchanged.
        place_of_bound = bound.position - skip
        results = len(list(leaves(loop.type)))
        stays = place_of_bound >= results or _given(body, place_of_bound) == _Leaf(place_of_bound + consts)
        last = _number(bound, flat, consts) if stays else None
    if last is None or start is None or not _grows_by_one(body, place, consts):
        return None
    return max(0, last - start + (direction == "LE"))


def _number(value: Instruction | _Leaf | None, flat: Sequence[Any], offset: int) -> int | None:
    """The number of a constant, or of the folded operand that a parameter is bound to; None if it is unknown."""
    if isinstance(value, Instruction):
        number = value.details.get("number") if value.opcode == "constant" else None
        return number if isinstance(number, int) else None
    if value is None or not 0 <= value.position + offset < len(flat):
        return None
    number = getattr(flat[value.position + offset], "number", None)
    return number if isinstance(number, int) else None


def _grows_by_one(body: Computation, place: int, consts: int) -> bool:
    """True if the body returns, at this place of its root, one more than it received there."""
    grown = _given(body, place)
    if not isinstance(grown, Instruction) or grown.opcode != "add":
        return False
    operands = [_resolved(body, operand) for operand in grown.operands]
    ones = [each for each in operands if isinstance(each, Instruction) and _number(each, (), 0) == 1]
    return bool(ones) and _Leaf(place + consts) in operands


def _given(body: Computation, place: int) -> Instruction | _Leaf | None:
    """The value that a body returns at this place of its root."""
    (name, path), root = body.root, _by_name(body).get(body.root[0])
    return _resolved(body, (name, (*path, place) if root and isinstance(root.type, tuple) else path))


def _by_name(computation: Computation) -> Mapping[str, Instruction]:
    return {instruction.name: instruction for instruction in computation.instructions}


def _resolved(computation: Computation, reference: Reference) -> Instruction | _Leaf | None:
    """The instruction or parameter leaf behind a reference, seen through tuples and copies; None if there is none."""
    known, first = _by_name(computation), _first_leaves(computation)
    name, path = reference
    while True:
        if name in first:
            # The leaf that a path in a parameter leads to; None for a part that has several.
            place = leaf_of(computation.parameters[name], path)
            return None if place is None else _Leaf(first[name] + place)
        instruction = known.get(name)
        if instruction is None:
            return None
        if instruction.opcode == "tuple" and (path or len(instruction.operands) == 1):
            path = path or (0,)
            if path[0] >= len(instruction.operands):
                return None
            (name, inner), path = instruction.operands[path[0]], path[1:]
            path = (*inner, *path)
        elif instruction.opcode == "get-tuple-element":
            name, inner = instruction.operands[0]
            path = (*inner, instruction.details["index"], *path)
        elif instruction.opcode in _PASSING and instruction.operands:
            name, path = instruction.operands[0]
        else:
            return instruction


def _first_leaves(computation: Computation) -> dict[str, int]:
    first, total = {}, 0
    for name, kind in computation.parameters.items():
        first[name] = total
        total += len(list(leaves(kind)))
    return first
