"""Parameters and loop states that take new values in the memory of the old ones, and the optimizer."""

from __future__ import annotations

from placewright.importers.builder import tensor_bytes
from placewright.importers.optimizers import OPTIMIZER_STATES
from placewright.importers.xla.program import Array
from placewright.importers.xla.translation import Translation


def write_loops_in_place(translation: Translation) -> None:
    """Lets loops write over what they start from, where an op made it and nothing reads it afterwards."""
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


def add_update(translation: Translation, new: int, old: int) -> int:
    """Makes a result take over the memory of a parameter, and returns the tensor that does.

    The op that computes it writes in place when everything else that reads the old value stands before it;
    otherwise a copy at the end does.
    """
    if new == old:
        return new
    op, tensor = translation.producer.get(new, -1), translation.builder.tensors[new]
    fits = tensor.alias_of is None and tensor.size_bytes == translation.builder.tensors[old].size_bytes
    computed = op >= 0 and translation.builder.ops[op].kind not in ("input", "view") and not tensor.is_output
    if not (
        fits and computed and all(reader <= op for reader in translation.readers.get(_owner(translation, old), []))
    ):
        name = translation.unique(f"copy:{translation.builder.tensors[old].name}")
        source, new = new, translation.add_tensor(name, translation.arrays[old])
        op = translation.add_op(name, "copy", inputs=[source], outputs=[new])
    _overwrite(translation, op, new, old, is_output=True)
    return new


def add_optimizer(translation: Translation, parameter: int, gradient: int, function: str) -> None:
    """The op that updates a parameter in place from its gradient and the optimizer's state."""
    label, array = translation.builder.tensors[parameter].name, translation.arrays[parameter]
    state_array = Array(array.shape, "float32", tensor_bytes(array.shape, "float32"))
    states = [
        translation.add_tensor(translation.unique(f"{label}.{state}"), state_array, role="parameter")
        for state in OPTIMIZER_STATES[function]
    ]
    name = f"{function}:{label}"
    result = translation.add_tensor(name, array)
    op = translation.add_op(
        name,
        "optimizer",
        inputs=[parameter, gradient, *states],
        outputs=[result],
        attributes={"function": function},
        phase="optimizer",
    )
    _overwrite(translation, op, result, parameter, is_output=True)


def _overwrite(translation: Translation, op: int, new: int, old: int, *, is_output: bool) -> None:
    """Makes a result share the memory of `old`, after every other op that reads that memory."""
    before = {reader for reader in translation.readers.get(_owner(translation, old), []) if reader != op}
    computed_from = {translation.producer.get(tensor, -1) for tensor in translation.builder.ops[op].inputs}
    controls = {*translation.builder.ops[op].controls, *before} - computed_from
    translation.builder.change_op(op, controls=tuple(sorted(controls)))
    translation.builder.change_tensor(new, alias_of=old, is_output=is_output)
    # What reads the new value reads that memory, too; the op itself stands for the old one no longer being there.
    later = translation.readers.pop(new, [])
    translation.readers.setdefault(_owner(translation, old), []).extend([*later, op])
    translation.owner[new] = _owner(translation, old)


def _owner(translation: Translation, tensor: int) -> int:
    """The tensor whose memory it is, also after that was taken over from another one."""
    while translation.owner[tensor] != tensor:
        tensor = translation.owner[tensor]
    return tensor
