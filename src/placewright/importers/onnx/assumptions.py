"""Shapes of results that depend on the data, where there is a largest one: that is assumed, and said.

A result that can be of any size (Range, Pad and Expand by computed numbers) has no such shape.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

Shape = tuple[int, ...]


def largest_shapes(
    node: Any, attributes: Mapping[str, Any], inputs: Sequence[Shape | None]
) -> tuple[list[Shape | None], str]:
    """For each output of the node the largest shape it can have, None where there is none; and the assumption in words.

    inputs: the shapes of its inputs.
    """
    shape = inputs[0] if inputs else None
    if shape is not None and node.op_type == "Unique":
        return _unique(shape, attributes), "its values are assumed to be all different"
    if shape is not None and node.op_type.startswith("Reduce") and len(inputs) == 2:
        return [_reduced(shape, inputs[1], attributes)], "it is assumed to reduce its smallest axes"
    return [], ""


def _unique(shape: Shape, attributes: Mapping[str, Any]) -> list[Shape | None]:
    """Values, the place of each, for each input value its place among them, and how often each comes."""
    axis = attributes.get("axis")
    if axis is None:
        count = (math.prod(shape),)
        return [count] * 4
    if not isinstance(axis, int) or not -len(shape) <= axis < len(shape):
        return []
    return [shape, (shape[axis],), (shape[axis],), (shape[axis],)]


def _reduced(shape: Shape, axes: Shape | None, attributes: Mapping[str, Any]) -> Shape | None:
    """Which axes are reduced is computed; how many is the length of the list of axes, where that is known."""
    keeps = bool(attributes.get("keepdims", 1))
    if axes is None or len(axes) != 1 or axes[0] > len(shape):
        return shape if keeps else None
    if axes[0] == 0:
        whole = bool(attributes.get("noop_with_empty_axes", 0))
        return shape if whole else (1,) * len(shape) if keeps else ()
    gone = sorted(range(len(shape)), key=lambda axis: shape[axis])[: axes[0]]
    return tuple(1 if axis in gone else extent for axis, extent in enumerate(shape) if keeps or axis not in gone)
