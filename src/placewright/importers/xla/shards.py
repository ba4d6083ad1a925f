"""Transitions from whole arrays to one device's parts of them, as in shard_map, and back.

details of such instructions: "in", "out": the division of each array, as text; empty where that is not written.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from placewright.importers.xla.program import Array, Folded, Instruction, Value, leaves, like
from placewright.importers.xla.translation import Translation
from placewright.support.errors import InputError, shown

_NOTE = "ops inside of shard_map are those of one device and its parts of the arrays; others count whole arrays"
_RESHARD = "{count} of reshard between shard_maps: the time to reach the other partitions is not known"
_ATTRIBUTE = re.compile(r"\b(in_shardings|out_shardings|manual_axes)\b")
_SHARDING = re.compile(r"<@[^<>]*>")


def written_shardings(text: str) -> dict[str, tuple[str, ...]]:
    """The details, from the attributes of Shardy as text."""
    pieces = _ATTRIBUTE.split(text.replace("\\", ""))
    found = dict(zip(pieces[1::2], pieces[2::2], strict=True))
    return {side: tuple(_SHARDING.findall(found.get(f"{side}_shardings", ""))) for side in ("in", "out")}


def shard_map(translation: Translation, instruction: Instruction, operands: Sequence[Value], prefix: str) -> Value:
    """The ops of one device, between its parts of the operands and its parts of the results."""
    kinds = tuple(instruction.called[0].parameters.values())
    parts: Any = _retyped(translation, instruction, operands, kinds, "in")
    given = translation.run(instruction.called[0], parts, f"{prefix}{instruction.name}/", instruction)
    return to_wholes(translation, instruction, [given], prefix)


def to_parts(translation: Translation, instruction: Instruction, operands: Sequence[Value], prefix: str) -> Value:
    """One device's parts of whole arrays."""
    return _retyped(translation, instruction, operands, instruction.type, "in")


def to_wholes(translation: Translation, instruction: Instruction, operands: Sequence[Value], prefix: str) -> Value:
    """The whole arrays behind one device's parts."""
    translation.shared.notes[_NOTE] += 1
    return _retyped(translation, instruction, operands, instruction.type, "out")


def _retyped(
    translation: Translation, instruction: Instruction, operands: Sequence[Value], kinds: Any, side: str
) -> Value:
    values, arrays = list(leaves(tuple(operands))), list(leaves(kinds))
    shardings = instruction.details.get(side, ())
    if len(values) != len(arrays):
        raise InputError(f"'{shown(instruction.name)}' has {len(arrays)} parts of {len(values)} arrays")
    if len(shardings) != len(arrays):
        shardings = ("",) * len(arrays)
    change = _part if side == "in" else _whole
    made = [change(translation, instruction, *each) for each in zip(values, arrays, shardings, strict=True)]
    return like(kinds, iter(made))


def _part(translation: Translation, instruction: Instruction, leaf: Any, array: Array, sharding: str) -> Any:
    """One device's part of an array: a view of it, the part that it was made from, or one that other devices send."""
    if not isinstance(leaf, int):
        return _folded(leaf, array)
    if leaf not in translation.part_of:
        if translation.arrays[leaf].shape == array.shape:
            return leaf
        view = _view(translation, instruction, leaf, array, "part")
        translation.parts_of.setdefault(leaf, []).append((view, sharding))
        return view
    part, before = translation.part_of[leaf]
    if translation.arrays[part].shape == array.shape and (before == sharding or not before or not sharding):
        return part
    translation.shared.notes[_RESHARD] += 1
    label = f"{translation.builder.tensors[part].name}:reshard"
    return translation.make(label, "other", array, [part], instruction=instruction)


def _whole(translation: Translation, instruction: Instruction, leaf: Any, array: Array, sharding: str) -> Any:
    """The whole array behind one device's part: a view that takes the memory of the part."""
    if not isinstance(leaf, int):
        return _folded(leaf, array)
    if translation.arrays[leaf].shape == array.shape:
        return leaf
    view = _view(translation, instruction, leaf, array, "whole")
    translation.part_of[view] = leaf, sharding
    return view


def _folded(leaf: Any, array: Array) -> Folded:
    return Folded(array, getattr(leaf, "number", None))


def _view(translation: Translation, instruction: Instruction, leaf: int, array: Array, what: str) -> int:
    return translation.view(f"{translation.builder.tensors[leaf].name}:{what}", array, leaf, instruction=instruction)


def hold_parts(translation: Translation) -> None:
    """Replaces each argument by one device's part of it where only such parts, all alike, are read."""
    readers = Counter(tensor for op in translation.builder.ops for tensor in set(op.inputs))
    for tensor in translation.entry:
        views = translation.parts_of.get(tensor, [])
        parts = {(translation.arrays[view], sharding) for view, sharding in views}
        if len(parts) == 1 and readers[tensor] == len(views):
            ((array, _),) = parts
            translation.arrays[tensor] = array
            translation.builder.change_tensor(tensor, shape=array.shape, size_bytes=array.size_bytes)
