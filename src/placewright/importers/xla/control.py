"""Instructions that are more, or less, than one op: tuples, calls, fusions, loops, branches, asynchronous pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from placewright.importers.xla.bodies import body_of
from placewright.importers.xla.loops import trip_count
from placewright.importers.xla.program import MAX_LEAVES, Body, Instruction, Value, leaves, like
from placewright.importers.xla.shards import shard_map, to_parts, to_wholes
from placewright.importers.xla.translation import Rule, Translation
from placewright.support.errors import InputError, shown

_UNKNOWN_TRIPS = "loops that run as often as data says: {count}; each is assumed to run once"
_BRANCHES = "choices between branches at run time: {count}; each is assumed to take the dearest"
#: Position of the result in the tuple of an asynchronous start, which also holds its operands and state.
_RESULT_OF_START = {
    "copy-start": 0,
    "async-start": 1,
    "all-gather-start": 1,
    "collective-permute-start": 1,
    "recv-start": 0,
}


_LEAST_CALLED = {"call": 1, "fusion": 1, "while": 2, "scan": 1, "conditional": 1, "shard-map": 1}
_NEEDS_OPERAND = frozenset({"identity", "add-dependency"})


def _tuple(translation: Translation, instruction: Instruction, operands: Sequence[Value], prefix: str) -> Value:
    if sum(1 for _ in islice(leaves(tuple(operands)), MAX_LEAVES + 1)) > MAX_LEAVES:
        raise InputError(f"'{shown(instruction.name)}' is a tuple of more than {MAX_LEAVES:,} arrays")
    return tuple(operands)


def _element(translation: Translation, instruction: Instruction, operands: Sequence[Value], prefix: str) -> Value:
    whole: Any = operands[0] if operands else None
    index = instruction.details["index"]
    if not isinstance(whole, tuple) or not 0 <= index < len(whole):
        raise InputError(f"'{shown(instruction.name)}' takes part {index} of what has no such part")
    value: Value = whole[index]
    return value


def _same(translation: Translation, instruction: Instruction, operands: Sequence[Value], prefix: str) -> Value:
    """The operands, as results of an instruction that only orders or marks them."""
    is_tuple = isinstance(operands[0], tuple) and len(operands) == 1
    return tuple(operands) if isinstance(instruction.type, tuple) and not is_tuple else operands[0]


def _call(translation: Translation, instruction: Instruction, operands: Sequence[Value], prefix: str) -> Value:
    return translation.run(instruction.called[0], operands, f"{prefix}{instruction.name}/", instruction)


def _fusion(translation: Translation, instruction: Instruction, operands: Sequence[Value], prefix: str) -> Value:
    """One op of the body's costliest kind, with the body's FLOPs; it reads and writes at its boundary only."""
    body = body_of(translation, instruction.called[0], is_fused=True)
    flat = _flat(operands)
    if len(flat) != len(body.read_bytes):
        raise InputError(f"'{shown(instruction.name)}' has {len(flat)} operands and its body {len(body.read_bytes)}")
    sizes = [translation.array_of(leaf).size_bytes for leaf in flat]
    moved = body.written_bytes + sum(min(pair) for pair in zip(sizes, body.read_bytes, strict=True))
    kind = body.kind if body.kind != "control_flow" else "other"
    attributes = {"flops": body.flops, "bytes_moved": moved, "fused": body.num_ops, **body.computes}
    return translation.emit(instruction, kind, flat, prefix, attributes)


def _loop(translation: Translation, instruction: Instruction, operands: Sequence[Value], prefix: str) -> Value:
    """One op with the work of all iterations. A value that the body passes on unchanged keeps its initial tensor."""
    details, flat = instruction.details, _flat(operands)
    if instruction.opcode == "scan" and details["trips"] <= details.get("unroll", -1):
        return _unrolled(translation, instruction, flat, prefix)
    body = body_of(translation, instruction.called[-1])
    trips = details.get("trips")
    if trips is None:
        trips = trip_count(instruction, flat)
    if trips is None:
        translation.shared.notes[_UNKNOWN_TRIPS] += 1
        trips = 1
    work = {"flops": trips * body.flops, "bytes_moved": trips * body.bytes_moved}
    attributes = {**work, "trips": trips, **body.computes}
    passed = _passed(instruction, flat, body)
    changing = [array for place, array in enumerate(leaves(instruction.type)) if place not in passed]
    made = translation.emit(
        replace(instruction, type=tuple(changing)), "control_flow", flat, prefix, attributes, body.temporary_bytes
    )
    places = iter(leaves(made))
    kept = [passed[place] if place in passed else next(places) for place, _ in enumerate(leaves(instruction.type))]
    _write_over_start(translation, instruction, flat, kept)
    return like(instruction.type, iter(kept))


def _changing(instruction: Instruction) -> tuple[int, int, int]:
    """Positions of the first carried value among a loop's operands and results, and the number of carried values."""
    details = instruction.details
    first = details.get("skip", 0) + details.get("consts", 0)
    return first, details.get("stacked", 0), details.get("carry", len(list(leaves(instruction.type))))


def _passed(instruction: Instruction, flat: Sequence[Any], body: Body) -> dict[int, Any]:
    """Maps each result that a loop never changes to its initial value."""
    first, stacked, carry = _changing(instruction)
    consts = instruction.details.get("consts", 0)
    return {
        stacked + place: flat[first + place]
        for place in range(min(carry, len(flat) - first))
        if body.passed.get(stacked + place) == consts + place
    }


def _write_over_start(
    translation: Translation, instruction: Instruction, flat: Sequence[Any], results: Sequence[Any]
) -> None:
    """Lets changing values overwrite their initial values."""
    first, stacked, carry = _changing(instruction)
    for old, new in zip(flat[first : first + carry], results[stacked:], strict=False):
        if isinstance(new, int) and isinstance(old, int) and new != old:
            translation.in_place.append((translation.producer[new], new, old))


def _unrolled(translation: Translation, instruction: Instruction, flat: Sequence[Any], prefix: str) -> Value:
    """A scan as the ops of all its steps; their stacked results are joined at the end."""
    details, body = instruction.details, instruction.called[-1]
    consts, carry, trips = details["consts"], details["carry"], details["trips"]
    fixed, state, stacked = list(flat[:consts]), list(flat[consts : consts + carry]), flat[consts + carry :]
    arrays = list(leaves(tuple(body.parameters.values())))[consts + carry :]
    gathered: list[list[Any]] = []
    for step in reversed(range(trips)) if details["reverse"] else range(trips):
        label = f"{prefix}{instruction.name}"
        names = [translation.builder.tensors[leaf].name if isinstance(leaf, int) else label for leaf in stacked]
        slices = [
            translation.piece(leaf, step, array, name) for leaf, array, name in zip(stacked, arrays, names, strict=True)
        ]
        given = list(leaves(translation.run(body, [*fixed, *state, *slices], f"{label}/{step}/", instruction)))
        state = given[:carry]
        gathered.append(given[carry:])
    arrays_out = list(leaves(instruction.type))[carry:]
    joined = [
        translation.join([step[position] for step in gathered], array, f"{prefix}{instruction.name}")
        for position, array in enumerate(arrays_out)
    ]
    return like(instruction.type, iter([*state, *joined]))


def _conditional(translation: Translation, instruction: Instruction, operands: Sequence[Value], prefix: str) -> Value:
    """One op with the work of the costliest branch."""
    bodies = [body_of(translation, branch) for branch in instruction.called]
    dearest = max(bodies, key=lambda body: (body.flops, body.bytes_moved))
    if len(bodies) > 1:
        translation.shared.notes[_BRANCHES] += 1
    attributes = {"flops": dearest.flops, "bytes_moved": dearest.bytes_moved, **dearest.computes}
    workspace = max(body.temporary_bytes for body in bodies)
    return translation.emit(instruction, "control_flow", _flat(operands), prefix, attributes, workspace)


def _start(translation: Translation, instruction: Instruction, operands: Sequence[Value], prefix: str) -> Value:
    place = _RESULT_OF_START.get(instruction.opcode)
    kind = instruction.type
    if place is not None and isinstance(kind, tuple) and len(kind) > place:
        kind = kind[place]
    opcode = instruction.opcode.removesuffix("-start")
    inner = replace(instruction, opcode="fusion" if opcode == "async" else opcode, type=kind)
    if opcode == "async" and not instruction.called:
        raise InputError(f"'{shown(instruction.name)}' starts a computation that is not named")
    if opcode == "async":
        return _fusion(translation, inner, operands, prefix)
    return translation.plain(inner, operands, prefix)


def _check(instruction: Instruction) -> None:
    """Raises InputError where an instruction lacks what its rule reads, as when the opcode is another dialect's."""
    opcode, called = instruction.opcode, len(instruction.called)
    least = _LEAST_CALLED.get(opcode, 0)
    needs_operand = opcode in _NEEDS_OPERAND or opcode.endswith(("-done", "-update"))
    if called < least or (opcode == "while" and called != least) or (opcode == "scan" and not instruction.details):
        raise InputError(f"'{shown(instruction.name)}' ({shown(opcode)}) does not name what it calls")
    if needs_operand and not instruction.operands:
        raise InputError(f"'{shown(instruction.name)}' ({shown(opcode)}) has no operand")
    if (opcode == "constant" and isinstance(instruction.type, tuple)) or (
        opcode == "get-tuple-element" and "index" not in instruction.details
    ):
        raise InputError(f"'{shown(instruction.name)}' is no {opcode}")


def _flat(operands: Sequence[Value]) -> list[Any]:
    return [leaf for operand in operands for leaf in leaves(operand) if leaf is not None]


_FIRST: Rule = lambda translation, instruction, operands, prefix: operands[0]  # noqa: E731
_RULES: dict[str, Rule] = {
    "tuple": _tuple,
    "get-tuple-element": _element,
    "identity": _same,
    "add-dependency": _FIRST,
    "constant": lambda translation, instruction, operands, prefix: translation.constant(instruction),
    "call": _call,
    "fusion": _fusion,
    "while": _loop,
    "scan": _loop,
    "conditional": _conditional,
    "shard-map": shard_map,
    "to-parts": to_parts,
    "to-wholes": to_wholes,
}


def rule_of(instruction: Instruction) -> Rule | None:
    """The rule of an instruction; None for a plain op.

    The first half of an asynchronous pair is the op; the second half waits for it. Raises InputError where an
    instruction lacks what its rule reads.
    """
    rule = _RULES.get(instruction.opcode)
    if rule is None and instruction.opcode.endswith("-start"):
        rule = _start
    elif rule is None and instruction.opcode.endswith(("-done", "-update")):
        rule = _FIRST
    if rule is not None:
        _check(instruction)
    return rule
