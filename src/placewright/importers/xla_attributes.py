"""Attributes of products, convolutions, reductions and windows, from an instruction's details and types.

details by opcode:
    products: contract, batch (a pair of lists of axes each, left and right), groups (axes of the right one)
    convolutions: lhs_spec (batch, feature, spatial axes), rhs_spec (out, in, spatial axes), stride, padding (pairs),
        lhs_dilation, rhs_dilation, groups
    reductions: function, axes; windows: function, window, stride, padding (pairs)
    gather: slice_sizes
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from placewright.importers.xla_kinds import KIND_OF_OPCODE, function_of, reduction_of
from placewright.importers.xla_program import Array, Instruction
from placewright.support.errors import InputError, shown

Attributes = dict[str, Any]


def describe(instruction: Instruction, inputs: Sequence[Array]) -> tuple[str, Attributes]:
    """Kind and attributes of an instruction that stands for one op; kind "other" for an opcode nobody knows.

    Raises InputError when what it says does not fit its operands.
    """
    kind = KIND_OF_OPCODE.get(instruction.opcode, "other")
    try:
        if kind == "elementwise":
            return kind, {"function": function_of(instruction.opcode)}
        rule = _RULES.get(kind)
        return kind, rule(instruction.details, inputs) if rule is not None else {}
    except (IndexError, KeyError, ValueError) as error:
        label = f"'{shown(instruction.name)}' ({shown(instruction.opcode)})"
        raise InputError(f"what {label} says of its axes does not fit its operands") from error


def _product(details: Mapping[str, Any], inputs: Sequence[Array]) -> Attributes:
    """The product of the extents that are summed, that are shared, and that are left on either side."""
    left, right = (each.shape for each in inputs[:2])
    contract, batch = details["contract"], details["batch"]
    return {
        "batch": _extent(left, batch[0]),
        "m": _left_over(left, (*contract[0], *batch[0])),
        "n": _left_over(right, (*contract[1], *batch[1], *details.get("groups", ()))),
        "k": _extent(left, contract[0]),
        "bias": False,
    }


def _extent(shape: Sequence[int], axes: Sequence[int]) -> int:
    return math.prod(shape[_axis(axis, shape)] for axis in axes)


def _left_over(shape: Sequence[int], axes: Sequence[int]) -> int:
    gone = {_axis(axis, shape) for axis in axes}
    return math.prod(extent for axis, extent in enumerate(shape) if axis not in gone)


def _axis(axis: int, shape: Sequence[int]) -> int:
    if not 0 <= axis < len(shape):
        raise IndexError(axis)
    return axis


def _convolution(details: Mapping[str, Any], inputs: Sequence[Array]) -> Attributes:
    """A dilated input, as in gradients of strided convolutions, is a transposed convolution: most of what the kernel
    meets are zeros in between, which nobody multiplies."""
    image, weight = (each.shape for each in inputs[:2])
    lhs_spec, rhs_spec = details["lhs_spec"], details["rhs_spec"]
    if len(lhs_spec) != len(image) or len(rhs_spec) != len(weight):
        raise ValueError
    transposed = any(step > 1 for step in details["lhs_dilation"])
    return {
        "kernel": [weight[axis] for axis in rhs_spec[2:]],
        "stride": list(details["lhs_dilation"] if transposed else details["stride"]),
        "padding": _flat_padding(details["padding"]),
        "dilation": list(details["rhs_dilation"]),
        "groups": details["groups"],
        "transposed": transposed,
        "in_channels": image[lhs_spec[1]],
        "out_channels": weight[rhs_spec[0]],
    }


def _flat_padding(pairs: Sequence[Sequence[int]]) -> list[int]:
    """One entry per axis, or all beginnings before all ends where they differ; what is cut off counts as none."""
    begins, ends = ([max(0, pair[side]) for pair in pairs] for side in (0, 1))
    return begins if begins == ends else begins + ends


def _reduction(details: Mapping[str, Any], inputs: Sequence[Array]) -> Attributes:
    return {"function": reduction_of(details["function"]), "axes": list(details["axes"])}


def _window(details: Mapping[str, Any], inputs: Sequence[Array]) -> Attributes:
    """Only the axes along which the window reaches further than one element, or moves by more."""
    window, stride = details["window"], details["stride"]
    padding = details["padding"] or [(0, 0)] * len(window)
    kept = [axis for axis in range(len(window)) if window[axis] != 1 or stride[axis] != 1]
    return {
        "function": "average" if details["function"] == "add" else reduction_of(details["function"]),
        "kernel": [window[axis] for axis in kept],
        "stride": [stride[axis] for axis in kept],
        "padding": _flat_padding([padding[axis] for axis in kept]),
        "global": False,
    }


_RULES = {
    "matmul": _product,
    "conv": _convolution,
    "reduction": _reduction,
    "pooling": _window,
    "pooling_backward": _window,
}
