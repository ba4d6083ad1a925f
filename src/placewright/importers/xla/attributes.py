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
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from placewright.importers.xla.kinds import KIND_OF_OPCODE, function_of, reduction_of
from placewright.importers.xla.program import Array, Instruction
from placewright.support.errors import InputError, shown

Attributes = dict[str, Any]
#: Along an axis with more places than this, the dilation alone gives the share of zeros, and no place is padding.
_MAX_COUNTED = 1_000_000


def axes_of_product(read: Callable[[str], Sequence[int]]) -> dict[str, Any]:
    """Details of a product. read: returns the axes written under a name such as "lhs_batch_dimensions"."""
    return {
        detail: [read(f"{side}_{name}_dimensions") for side in ("lhs", "rhs")]
        for detail, name in (("contract", "contracting"), ("batch", "batch"))
    }


def places_of(labels: Sequence[str], first: str) -> tuple[int, ...]:
    """Positions of the two labels in `first`, then of the spatial ones, among the labels of a convolution's axes.
    Raises ValueError for a missing label."""
    spatial = sum(label.isdigit() for label in labels)
    return tuple(labels.index(label) for label in [*first, *map(str, range(spatial))])


def describe(instruction: Instruction, inputs: Sequence[Array]) -> tuple[str, Attributes]:
    """Kind and attributes of an instruction that becomes one op; kind "other" for an unknown opcode.

    Raises InputError when its details do not fit its operands.
    """
    kind = KIND_OF_OPCODE.get(instruction.opcode, "other")
    try:
        if kind == "elementwise":
            return kind, {"function": function_of(instruction.opcode)}
        if kind == "pooling" and (function := _running(instruction.details, inputs)):
            return "elementwise", {"function": function}
        rule = _RULES.get(kind)
        return kind, rule(instruction.details, inputs) if rule is not None else {}
    except (IndexError, KeyError, ValueError, ZeroDivisionError) as error:
        label = f"'{shown(instruction.name)}' ({shown(instruction.opcode)})"
        raise InputError(f"what {label} says of its axes does not fit its operands") from error


def _product(details: Mapping[str, Any], inputs: Sequence[Array]) -> Attributes:
    """Sizes of a product: its shared axes (batch), those left on either side (m, n) and the summed ones (k)."""
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
    """Attributes of a convolution.

    A dilated input, as in gradients of strided convolutions, makes it a transposed one. Most elements that the kernel
    meets are then zeros in between, which are not multiplied, so the FLOPs are counted here. They are also counted
    where all but one element of the kernel may lie in the padding, as in the gradient of a convolution without any.
    """
    image, weight = (each.shape for each in inputs[:2])
    lhs_spec, rhs_spec = details["lhs_spec"], details["rhs_spec"]
    if len(lhs_spec) != len(image) or len(rhs_spec) != len(weight):
        raise ValueError
    transposed = any(step > 1 for step in details["lhs_dilation"])
    attributes = {
        "kernel": [weight[axis] for axis in rhs_spec[2:]],
        "stride": list(details["lhs_dilation"] if transposed else details["stride"]),
        "padding": _flat_padding(details["padding"]),
        "dilation": list(details["rhs_dilation"]),
        "groups": details["groups"],
        "transposed": transposed,
        "in_channels": image[lhs_spec[1]],
        "out_channels": weight[rhs_spec[0]],
    }
    reaches = [
        (weight[axis] - 1) * spread <= max(pair)
        for axis, spread, pair in zip(rhs_spec[2:], details["rhs_dilation"], details["padding"], strict=True)
        if weight[axis] > 1
    ]
    if not transposed and not any(reaches):
        return attributes
    met = [
        _elements_met(image[lhs_spec[axis + 2]], weight[rhs_spec[axis + 2]], details, axis)
        for axis in range(len(lhs_spec) - 2)
    ]
    ends = image[lhs_spec[0]] * attributes["out_channels"] * attributes["in_channels"] // details["groups"]
    return {**attributes, "flops": 2 * ends * math.prod(met)}


def _elements_met(extent: int, kernel: int, details: Mapping[str, Any], axis: int) -> int:
    """The number of times that kernel and input elements meet along one axis, without padding and zeros in between."""
    stride, dilation = details["stride"][axis], details["lhs_dilation"][axis]
    spread, (begin, end) = details["rhs_dilation"][axis], details["padding"][axis]
    reach = (extent - 1) * dilation + 1
    results = (reach + begin + end - (kernel - 1) * spread - 1) // stride + 1
    if results <= 0 or results * kernel > _MAX_COUNTED:
        return int(max(0, results) * kernel // dilation)
    places = np.arange(results)[:, None] * stride + np.arange(kernel)[None, :] * spread - begin
    return int(np.count_nonzero((places % dilation == 0) & (places >= 0) & (places < reach)))


def _flat_padding(pairs: Sequence[Sequence[int]]) -> list[int]:
    """One entry per axis, or all beginnings before all ends where they differ; negative padding counts as zero."""
    begins, ends = ([max(0, pair[side]) for pair in pairs] for side in (0, 1))
    return begins if begins == ends else begins + ends


def _reduction(details: Mapping[str, Any], inputs: Sequence[Array]) -> Attributes:
    return {"function": reduction_of(details["function"]), "axes": list(details["axes"])}


def _window(details: Mapping[str, Any], inputs: Sequence[Array]) -> Attributes:
    """Attributes of a pooling, with only the axes along which the window spans or moves by more than one element."""
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


def _running(details: Mapping[str, Any], inputs: Sequence[Array]) -> str:
    """The function of a cumulative sum or the like, which StableHLO writes as a window over all elements before or
    after; empty for any other window. XLA computes it step by step."""
    shape, window, stride = inputs[0].shape, details["window"], details["stride"]
    wide = [axis for axis in range(len(window)) if window[axis] != 1]
    if len(wide) != 1 or len(window) != len(shape) or any(step != 1 for step in stride):
        return ""
    (axis,), extent = wide, shape[wide[0]]
    padding = [tuple(pair) for pair in details["padding"] or ()]
    plain = all(pair == (0, 0) for other, pair in enumerate(padding) if other != axis)
    if window[axis] != extent or not padding or not plain or padding[axis] not in ((extent - 1, 0), (0, extent - 1)):
        return ""
    joined = reduction_of(details["function"])
    return f"cum{'prod' if joined == 'product' else joined}"


_RULES = {
    "matmul": _product,
    "conv": _convolution,
    "reduction": _reduction,
    "pooling": _window,
    "pooling_backward": _window,
}
