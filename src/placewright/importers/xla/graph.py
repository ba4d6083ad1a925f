"""A program of one of XLA's dialects as a Graph: calls inlined, constants folded, fusions and loops as one op each."""

from __future__ import annotations

from collections.abc import Collection, Mapping, MutableSequence, Set
from dataclasses import replace
from typing import Any

from placewright.graph import Graph
from placewright.importers.builder import GraphBuilder
from placewright.importers.optimizers import OPTIMIZER_STATES, Optimizer
from placewright.importers.xla.control import rule_of
from placewright.importers.xla.kinds import UPDATING_OPCODES
from placewright.importers.xla.program import Program, leaves
from placewright.importers.xla.scopes import phases
from placewright.importers.xla.shards import hold_parts
from placewright.importers.xla.translation import Shared, Translation


def build_graph(
    program: Program,
    name: str,
    metadata: Mapping[str, Any],
    *,
    optimizer: Optimizer | None = None,
    warning: str = "",
) -> Graph:
    """The graph of a program.

    optimizer: takes the last leaves of the root, one gradient per weight. warning: an assumption about the program.
    """
    translation = Translation(GraphBuilder(name), Shared(program.materialised, program.scopes_nest, rule_of))
    root = translation.run(program.entry, translation.add_arguments(program))
    hold_parts(translation)
    outputs = [translation.as_output(leaf) for leaf in leaves(root)]
    if optimizer is not None:
        results = len(outputs) - len(program.weights)
        for weight, gradient in zip(sorted(program.weights), outputs[results:], strict=True):
            add_optimizer(translation, translation.entry[weight], gradient, optimizer)
        outputs = outputs[:results]
    write_updates(translation, outputs, {output: translation.entry[place] for output, place in program.updates.items()})
    for output in outputs:
        translation.builder.change_tensor(output, is_output=True)
    if warning:
        translation.builder.warn(warning)
    write_in_place(translation)
    return _finished(translation, metadata)


def _finished(translation: Translation, metadata: Mapping[str, Any]) -> Graph:
    builder = translation.builder
    views, weights = split_stacked_weights(translation)
    drop_unused(translation, views, weights)
    for index, phase in enumerate(phases(builder, translation.scopes)):
        if phase and not builder.ops[index].phase:
            builder.change_op(index, phase=phase)
    for note, count in translation.shared.notes.items():
        builder.warn(note.replace("{count}", f"{count:,}", 1))
    trains = any(op.phase == "backward" for op in builder.ops)
    return builder.build({**metadata, "mode": "training" if trains else "inference"})


def split_stacked_weights(translation: Translation) -> tuple[Set[int], Set[int]]:
    """Makes the pieces of a weight that is read only in pieces parameters of their own, so that they need not lie on
    one device.

    Returns the ops that viewed such weights, and the weights; neither is needed any more.
    """
    tensors, ops = translation.builder.tensors, translation.builder.ops
    views = {translation.producer[piece]: base for (base, _), piece in translation.pieces.items()}
    whole = {base for base in views.values() if tensors[base].role == "parameter" and not tensors[base].is_output}
    for index, op in enumerate(ops):
        if index not in views:
            whole.difference_update(op.inputs)
    pieces = set(translation.pieces.values())
    whole -= {each.alias_of for index, each in enumerate(tensors) if each.alias_of is not None and index not in pieces}
    for (base, _), piece in translation.pieces.items():
        if base in whole:
            translation.builder.change_tensor(piece, role="parameter", alias_of=None)
    return {op for op, base in views.items() if base in whole}, whole


def drop_unused(translation: Translation, replaced: Collection[int], split: Collection[int]) -> None:
    """Removes ops that neither lead to an output nor are kept, and constants that nothing reads, and moves early
    ops to their places. replaced, split: ops and parameters that are not needed any more."""
    ops, tensors, early = translation.builder.ops, translation.builder.tensors, translation.early
    wanted = {index for index, tensor in enumerate(tensors) if tensor.is_output}
    live = translation.live_ops(wanted, replaced)
    live.sort(key=lambda index: (early.get(index, index), index))
    made = {tensor for index in live for tensor in ops[index].outputs}
    staying = [
        index
        for index, tensor in enumerate(tensors)
        if index in made or index in wanted or (tensor.role == "parameter" and index not in split)
    ]
    if early or len(live) < len(ops) or len(staying) < len(tensors):
        _renumber(translation.builder, live, staying)
        translation.scopes = [translation.scopes[index] for index in live]


def _renumber(builder: GraphBuilder, live: list[int], staying: list[int]) -> None:
    new_op = {old: new for new, old in enumerate(live)}
    new_tensor = {old: new for new, old in enumerate(staying)}
    tensors = [builder.tensors[index] for index in staying]
    builder.tensors = [
        tensor if tensor.alias_of is None else replace(tensor, alias_of=new_tensor[tensor.alias_of])
        for tensor in tensors
    ]
    builder.ops = [
        replace(
            op,
            inputs=tuple([new_tensor[tensor] for tensor in op.inputs]),
            outputs=tuple([new_tensor[tensor] for tensor in op.outputs]),
            controls=tuple([new_op[control] for control in op.controls if control in new_op]),
        )
        for op in (builder.ops[index] for index in live)
    ]


def write_in_place(translation: Translation) -> None:
    """Lets loops and partial updates overwrite their initial value, where an op made it and nothing reads it later."""
    outputs = {_owner(translation, index) for index, each in enumerate(translation.builder.tensors) if each.is_output}
    for op, new, old in translation.in_place:
        taken = _owner(translation, old) in outputs
        maker = translation.producer.get(_owner(translation, old), -1)
        before, after = translation.builder.tensors[old], translation.builder.tensors[new]
        free = maker >= 0 and translation.builder.ops[maker].kind != "input" and not taken
        same = before.size_bytes == after.size_bytes == translation.arrays[_owner(translation, old)].size_bytes
        readers = translation.readers.get(_owner(translation, old), [])
        if free and same and after.alias_of is None and all(reader <= op for reader in readers):
            _overwrite(translation, op, new, old, is_output=after.is_output)
            if after.is_output:
                outputs.add(_owner(translation, old))


def write_updates(translation: Translation, outputs: MutableSequence[int], updates: Mapping[int, int]) -> None:
    """Gives every result memory of its own, and makes results take over the memory of parameters.

    outputs: the tensors of the results, changed in place. updates: maps results to parameters.
    """
    own = {output for output, old in updates.items() if outputs[output] == old}
    written = {old for output, old in updates.items() if output not in own}
    # Arguments that are not donated are returned as they are.
    lent = set(translation.entry) - set(updates.values())
    shown: set[int] = set()
    for output in sorted(range(len(outputs)), key=lambda output: output not in own):
        owner = translation.owner[outputs[output]]
        if owner in shown and owner not in lent:
            outputs[output] = _copied(translation, outputs[output], is_early=owner in written)
        shown.add(owner)
    for output, old in updates.items():
        for other in range(len(outputs)) if output not in own else ():
            if other != output and translation.owner[outputs[other]] == old:
                outputs[other] = _copied(translation, outputs[other], is_early=True)
        outputs[output] = add_update(translation, outputs[output], old)


def _copied(translation: Translation, tensor: int, *, is_early: bool) -> int:
    """A copy of a result; an early one is made right after the result, before that is overwritten."""
    label, array = f"copy:{translation.builder.tensors[tensor].name}", translation.arrays[tensor]
    if translation.arrays[whole := translation.owner[tensor]].size_bytes == array.size_bytes:
        tensor = whole
    new = translation.make(label, "copy", array, [tensor])
    if is_early:
        translation.early[translation.producer[new]] = translation.producer.get(tensor, -1)
    return new


def add_update(translation: Translation, new: int, old: int) -> int:
    """Makes a result take over the memory of a parameter, and returns the tensor that does.

    The op that computes the result writes in place if all other readers of the old value come before it; otherwise a
    copy at the end does.
    """
    if new == old:
        return new
    op, tensor = translation.producer.get(new, -1), translation.builder.tensors[new]
    fits = tensor.alias_of is None and tensor.size_bytes == translation.builder.tensors[old].size_bytes
    computed = op >= 0 and translation.builder.ops[op].kind not in ("input", "view") and op not in translation.early
    readers = translation.readers.get(_owner(translation, old), [])
    if not (fits and computed and all(translation.early.get(reader, reader - 1) < op for reader in readers)):
        label = f"copy:{translation.builder.tensors[old].name}"
        new = translation.make(label, "copy", translation.arrays[old], [new])
        op = translation.producer[new]
    _overwrite(translation, op, new, old, is_output=True)
    return new


def add_optimizer(translation: Translation, parameter: int, gradient: int, function: str) -> None:
    """Adds the op that updates a parameter in place from its gradient and the optimizer's state."""
    label, array = translation.builder.tensors[parameter].name, translation.arrays[parameter]
    states = [
        translation.add_tensor(translation.unique(f"{label}.{state}"), array, role="parameter")
        for state in OPTIMIZER_STATES[function]
    ]
    inputs, attributes = [parameter, gradient, *states], {"function": function}
    result = translation.make(
        f"{function}:{label}", "optimizer", array, inputs, attributes=attributes, phase="optimizer"
    )
    _overwrite(translation, translation.producer[result], result, parameter, is_output=True)


def _overwrite(translation: Translation, op: int, new: int, old: int, *, is_output: bool) -> None:
    """Makes a result share the memory of `old`, after every other op that reads that memory."""
    before = {reader for reader in translation.readers.get(_owner(translation, old), []) if reader != op}
    computed_from = {translation.producer.get(tensor, -1) for tensor in translation.builder.ops[op].inputs}
    controls = {*translation.builder.ops[op].controls, *before} - computed_from
    translation.builder.change_op(op, controls=tuple(sorted(controls)))
    translation.builder.change_tensor(new, alias_of=old, is_output=is_output)
    _move_the_part_only(translation, op, old)
    # Readers of the new value read that memory, too; so does the op itself, which ends the old value.
    later = translation.readers.pop(new, [])
    translation.readers.setdefault(_owner(translation, old), []).extend([*later, op])
    translation.owner[new] = _owner(translation, old)


def _move_the_part_only(translation: Translation, op: int, old: int) -> None:
    """Counts, for an update in place, only the bytes of the changed part, read and written, and of its indices."""
    found = translation.builder.ops[op]
    is_update = translation.opcodes[op] in UPDATING_OPCODES and found.kind == "gather"
    if (
        not is_update
        or len(found.inputs) < 2
        or len(found.outputs) != 1
        or _owner(translation, found.inputs[0]) != _owner(translation, old)
    ):
        return
    sizes = [translation.arrays[tensor].size_bytes for tensor in found.inputs[1:]]
    part = sizes[0] if translation.opcodes[op] == "dynamic-update-slice" else sizes[-1]
    attributes = {**found.attributes, "bytes_moved": sum(sizes) + part}
    translation.builder.change_op(op, attributes=attributes)


def _owner(translation: Translation, tensor: int) -> int:
    """The tensor that owns a tensor's memory, also where memory was taken over."""
    while translation.owner[tensor] != tensor:
        tensor = translation.owner[tensor]
    return tensor
