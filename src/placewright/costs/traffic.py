"""Bytes an op moves between a device's memory and its arithmetic: each distinct input once, each output once.

Ops of kinds that access only a part of a tensor are charged for that part.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from placewright.graph import Op, Tensor
from placewright.support.errors import InputError, shown

Tensors = Sequence[Tensor]

_FREE = frozenset({"view", "input"})
#: Kinds that read no more elements of their first input than they write: rows looked up, slices taken.
_SELECTING = frozenset({"embedding", "gather", "copy"})
#: The size of an optimizer's results, as a share of its inputs: p of (p, g); p, m, v of (p, g, m, v).
_WRITTEN_SHARE = {"sgd": (1, 2), "adam": (3, 4), "adamw": (3, 4)}


def count_bytes(op: Op, inputs: Tensors, outputs: Tensors) -> int:
    """Bytes read and written by the op; `inputs` are its distinct inputs."""
    if op.kind in _FREE:
        return 0
    if "bytes_moved" in op.attributes:
        return _stated_bytes(op)
    written = sum([tensor.size_bytes for tensor in outputs])
    if op.kind == "fill":
        return written
    if op.kind in _SELECTING:
        # The other inputs are indices, scales of the rows, or the values to write.
        beside = [_selected(tensor, outputs) if op.kind == "embedding" else tensor.size_bytes for tensor in inputs[1:]]
        return written + sum([_selected(tensor, outputs) for tensor in inputs[:1]]) + sum(beside)
    read = sum([tensor.size_bytes for tensor in inputs])
    if op.kind == "embedding_backward":
        # The table of gradients is cleared, then the rows that were looked up are read, added to and written.
        return read + written + 2 * (inputs[0].size_bytes if inputs else 0)
    if op.kind == "optimizer":
        # The size of the updates in place, for importers that give the op no outputs for them.
        numerator, denominator = _WRITTEN_SHARE.get(str(op.attributes.get("function")), (1, 2))
        return read + max(written, read * numerator // denominator)
    return read + written


def _selected(tensor: Tensor, outputs: Tensors) -> int:
    """Return the most bytes read from a tensor if each element written is one of its elements, whatever the dtypes."""
    if tensor.shape is None or any(each.shape is None for each in outputs):
        return min(tensor.size_bytes, sum([each.size_bytes for each in outputs]))
    elements = math.prod(tensor.shape)
    selected = sum([math.prod(each.shape) for each in outputs if each.shape is not None])
    return tensor.size_bytes if selected >= elements else -(-tensor.size_bytes * selected // elements)


def _stated_bytes(op: Op) -> int:
    """Return the bytes that a fusion or a loop states, which its tensors do not show."""
    stated = op.attributes["bytes_moved"]
    if type(stated) is not int or stated < 0:
        label = f"op '{shown(op.name)}' has bytes_moved = {shown(repr(stated))}"
        raise InputError(f"{label}, which is not a whole number of at least 0")
    return stated
