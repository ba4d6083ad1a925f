"""Drops what no result needs: JAX traces it, XLA never computes it."""

from __future__ import annotations

from collections.abc import Collection, MutableSequence
from dataclasses import replace
from typing import Any

from placewright.importers.builder import GraphBuilder


def drop_unused(
    builder: GraphBuilder,
    kept: Collection[int],
    replaced: Collection[int],
    split: Collection[int],
    *per_op: MutableSequence[Any],
) -> None:
    """Removes ops that neither lead to an output nor are kept, and constants that nothing reads.

    replaced, split: ops and parameters that are not needed any more. per_op:
    lists with an entry for each op, from which the same entries are removed.
    """
    ops, tensors = builder.ops, builder.tensors
    wanted = {index for index, tensor in enumerate(tensors) if tensor.is_output}
    live: list[int] = []
    for index in range(len(ops) - 1, -1, -1):
        op = ops[index]
        if index in replaced:
            continue
        if op.kind == "input" or index in kept or not wanted.isdisjoint(op.outputs):
            live.append(index)
            wanted.update(op.inputs)
    live.reverse()
    made = {tensor for index in live for tensor in ops[index].outputs}
    staying = [
        index
        for index, tensor in enumerate(tensors)
        if index in made or index in wanted or (tensor.role == "parameter" and index not in split)
    ]
    if len(live) == len(ops) and len(staying) == len(tensors):
        return
    _renumber(builder, live, staying)
    for entries in per_op:
        entries[:] = [entries[index] for index in live]


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
