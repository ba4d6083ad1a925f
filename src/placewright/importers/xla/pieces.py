"""Weights that are stacked for a scan, and of which each step of the unrolled scan reads one piece."""

from __future__ import annotations

from collections.abc import Set

from placewright.importers.xla.translation import Translation


def split_stacked_weights(translation: Translation) -> tuple[Set[int], Set[int]]:
    """Makes pieces parameters of their own where pieces are all that anybody reads of a weight, so that they need not
    stand on one device.

    Returns the ops that viewed such weights, and the weights, both of which are no longer needed.
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
