"""Computes the small tensors from which an ONNX graph derives its shapes: the results of Shape, Gather, Concat ...

Source: the operator reference of ONNX; where versions of an operator differ, both forms are understood.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from placewright.support.errors import InputError

#: The most elements of a shape; larger results are left to shape inference.
MAX_ELEMENTS = 4096

Array = npt.NDArray[Any]
Attributes = Mapping[str, Any]
_Rule = Callable[[Sequence[Any], Attributes], Any]


def evaluate(op_type: str, inputs: Sequence[Array | None], attributes: Attributes) -> Array | None:
    """The only output of the op; None when the op is not used to make shapes, or cannot be computed.

    Raises InputError, without the op's name, for arithmetic that fails wherever the model runs.
    """
    rule = _RULES.get(op_type)
    if rule is None:
        return None
    try:
        with np.errstate(all="ignore"):
            result = np.asarray(rule(inputs, attributes))
    except (ValueError, TypeError, IndexError, KeyError, OverflowError, ZeroDivisionError, AttributeError):
        # The node does not fit its operator's definition; it then simply has no known value.
        return None
    # A missing input gives an array of objects, which is no value either.
    return result if result.size <= MAX_ELEMENTS and not result.dtype.hasobject else None


def _axes(inputs: Sequence[Any], attributes: Attributes) -> tuple[int, ...] | None:
    """The axes, an attribute in older versions and the second input in newer ones."""
    axes = attributes.get("axes")
    if axes is None and len(inputs) > 1 and inputs[1] is not None:
        axes = np.atleast_1d(inputs[1]).tolist()
    return None if axes is None else tuple(axes)


def _bounded(shape: Sequence[int]) -> tuple[int, ...]:
    extents = tuple(int(extent) for extent in shape)
    if math.prod(extents) > MAX_ELEMENTS:
        raise ValueError("too large to be a shape")
    return extents


def _divide(inputs: Sequence[Any], attributes: Attributes) -> Array:
    """Divides; integers towards zero."""
    if np.issubdtype(inputs[0].dtype, np.integer):
        if not np.all(inputs[1]):
            raise InputError("it divides a whole number by zero")
        quotient = np.abs(inputs[0]) // np.abs(inputs[1])
        return np.asarray(quotient * np.sign(inputs[0]) * np.sign(inputs[1]), dtype=inputs[0].dtype)
    return np.asarray(inputs[0] / inputs[1])


def _cast(inputs: Sequence[Any], attributes: Attributes) -> Array:
    from onnx.helper import tensor_dtype_to_np_dtype

    return np.asarray(inputs[0].astype(tensor_dtype_to_np_dtype(attributes["to"])))


def _constant_of_shape(inputs: Sequence[Any], attributes: Attributes) -> Array:
    value = attributes.get("value", np.zeros(1, dtype=np.float32))
    return np.full(_bounded(inputs[0]), value.reshape(-1)[0], dtype=value.dtype)


def _expand(inputs: Sequence[Any], attributes: Attributes) -> Array:
    target = tuple(int(extent) for extent in inputs[1])
    return np.broadcast_to(inputs[0], _bounded(np.broadcast_shapes(inputs[0].shape, target)))


def _range(inputs: Sequence[Any], attributes: Attributes) -> Array:
    start, limit, delta = (entry.reshape(-1)[0] for entry in inputs)
    if delta == 0:
        raise InputError("its step is zero")
    # The quotient is computed in double, as in ONNX Runtime: for 0, 0.6 and 0.1 in float32 it is just above 6.
    (count,) = _bounded([max(0, math.ceil(float(limit - start) / float(delta)))])
    return np.asarray(start + np.arange(count).astype(inputs[0].dtype) * delta, dtype=inputs[0].dtype)


def _reduce(function: Callable[..., Any]) -> _Rule:
    def rule(inputs: Sequence[Any], attributes: Attributes) -> Any:
        axes = _axes(inputs, attributes)
        if not axes and attributes.get("noop_with_empty_axes", 0):
            return inputs[0]
        found = function(inputs[0], axis=axes or None, keepdims=bool(attributes.get("keepdims", 1)))
        return np.asarray(found, dtype=inputs[0].dtype)  # numpy adds up small integers as larger ones

    return rule


def _reshape(inputs: Sequence[Any], attributes: Attributes) -> Array:
    shape = attributes["shape"] if "shape" in attributes else inputs[1].tolist()
    keeps_zero = bool(attributes.get("allowzero", 0))
    extents = [inputs[0].shape[axis] if not extent and not keeps_zero else extent for axis, extent in enumerate(shape)]
    return np.reshape(inputs[0], extents)


def _slice(inputs: Sequence[Any], attributes: Attributes) -> Array:
    data = inputs[0]
    given = [list(entry) if entry is not None else None for entry in inputs[1:]] + [None] * 4
    starts = attributes.get("starts", given[0])
    ends = attributes.get("ends", given[1])
    axes = attributes.get("axes", given[2]) or range(len(starts))
    steps = given[3] or [1] * len(starts)
    where = [slice(None)] * data.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        # For a negative step, an end before the first element includes it, which a Python slice spells None. A start
        # before it is that element.
        extent = data.shape[axis]
        stop = None if step < 0 and end < -extent else int(end)
        where[axis] = slice(max(int(start), -extent) if step < 0 else int(start), stop, int(step))
    return np.asarray(data[tuple(where)])


def _unsqueeze(inputs: Sequence[Any], attributes: Attributes) -> Array:
    return np.expand_dims(inputs[0], _axes(inputs, attributes) or ())


def _plain(function: Callable[..., Any]) -> _Rule:
    """An elementwise rule without attributes."""

    def rule(inputs: Sequence[Any], attributes: Attributes) -> Any:
        _bounded(np.broadcast_shapes(*(entry.shape for entry in inputs)))
        return function(*inputs)

    return rule


_RULES: Mapping[str, _Rule] = {
    "Abs": _plain(np.abs),
    "Add": _plain(np.add),
    "And": _plain(np.logical_and),
    "Cast": _cast,
    "Ceil": _plain(np.ceil),
    "Concat": lambda inputs, attributes: np.concatenate(inputs, axis=attributes["axis"]),
    "ConstantOfShape": _constant_of_shape,
    "Div": _divide,
    "Equal": _plain(np.equal),
    "Expand": _expand,
    "Floor": _plain(np.floor),
    "Gather": lambda inputs, attributes: np.take(inputs[0], inputs[1], axis=attributes.get("axis", 0)),
    "Greater": _plain(np.greater),
    "GreaterOrEqual": _plain(np.greater_equal),
    "Identity": _plain(np.asarray),
    "Less": _plain(np.less),
    "LessOrEqual": _plain(np.less_equal),
    "Max": _plain(lambda *inputs: np.maximum.reduce(np.broadcast_arrays(*inputs))),
    "Min": _plain(lambda *inputs: np.minimum.reduce(np.broadcast_arrays(*inputs))),
    "Mod": lambda inputs, attributes: (np.fmod if attributes.get("fmod", 0) else np.mod)(*inputs),
    "Mul": _plain(np.multiply),
    "Neg": _plain(np.negative),
    "Not": _plain(np.logical_not),
    "Or": _plain(np.logical_or),
    "Pow": _plain(np.power),
    "Range": _range,
    "ReduceMax": _reduce(np.max),
    "ReduceMin": _reduce(np.min),
    "ReduceProd": _reduce(np.prod),
    "ReduceSum": _reduce(np.sum),
    "Reshape": _reshape,
    "Slice": _slice,
    "Sqrt": _plain(np.sqrt),
    "Squeeze": lambda inputs, attributes: np.squeeze(inputs[0], _axes(inputs, attributes)),
    "Sub": _plain(np.subtract),
    "Transpose": lambda inputs, attributes: np.transpose(inputs[0], attributes.get("perm")),
    "Unsqueeze": _unsqueeze,
    "Where": _plain(np.where),
}
