"""Details of StableHLO statements, as xla/attributes.py and xla/loops.py read them, from their text."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from placewright.importers.xla.attributes import places_of
from placewright.importers.xla.program import whole_numbers

Details = dict[str, Any]
_LIST = r"\s*=\s*(?:array<i\d+:?([^>]*)>|dense<([^>]*)>|(\[\[.*?\]\]|\[[^\]]*\])|(-?\d+))"
_DIMENSION_NUMBERS = re.compile(r"\[([^\]]*)\]\s*x\s*\[([^\]]*)\]\s*->\s*\[([^\]]*)\]")
_PAIR = r"\s*=\s*\[([^\]]*)\]\s*x\s*\[([^\]]*)\]"
_DIRECTION = re.compile(r"(?:compare\s+|comparison_direction\s+)?\b(EQ|NE|GE|GT|LE|LT)\b")


def numbers(text: str, name: str) -> tuple[int, ...] | None:
    """The whole numbers of an attribute; None where it is missing."""
    match = re.search(rf"\b{name}{_LIST}", text)
    return None if match is None else whole_numbers(next(group for group in match.groups() if group is not None))


def _product(text: str, rank: int) -> Details:
    """Axes of a dot, in either of the two notations."""
    found = []
    for short, long in (("contracting_dims", "contracting_dimensions"), ("batching_dims", "batching_dimensions")):
        match = re.search(rf"\b{short}{_PAIR}", text)
        sides = match.groups() if match else ("", "")
        written = [numbers(text, f"{side}_{long}") for side in ("lhs", "rhs")]
        pairs = zip(sides, written, strict=True)
        found.append([whole_numbers(side) if other is None else other for side, other in pairs])
    return {"contract": found[0], "batch": found[1]}


def _ragged_product(text: str, rank: int) -> Details:
    """Axes of a product of every row with the matrix of its group."""
    return {**_product(text, rank), "groups": numbers(text, "rhs_group_dimensions") or ()}


def _plain_product(text: str, rank: int) -> Details:
    """Axes of the old dot: it contracts the last axis of the left operand with the first of the right one."""
    return {"contract": [(rank - 1,), (0,)], "batch": [(), ()]}


def _convolution(text: str, rank: int) -> Details:
    """Axes and window of a convolution. Raises ValueError where its dimension numbers are missing or malformed."""
    match = _DIMENSION_NUMBERS.search(text)
    if match is None:
        raise ValueError
    lhs_spec = places_of([label.strip() for label in match[1].split(",")], "bf")
    rhs_spec = places_of([label.strip() for label in match[2].split(",")], "oi")
    axes = len(lhs_spec) - 2
    return {
        "lhs_spec": lhs_spec,
        "rhs_spec": rhs_spec,
        "stride": _per_axis(text, ("stride", "window_strides"), axes),
        "padding": _pairs(text, ("pad", "padding"), axes),
        "lhs_dilation": _per_axis(text, ("lhs_dilate", "lhs_dilation"), axes),
        "rhs_dilation": _per_axis(text, ("rhs_dilate", "rhs_dilation"), axes),
        "groups": max(1, *(numbers(text, "feature_group_count") or (1,))[:1]),
    }


def _per_axis(text: str, names: tuple[str, ...], axes: int) -> tuple[int, ...]:
    """One number per axis: a single one is repeated, none gives ones. Raises ValueError for any other count."""
    found = next((each for name in names if (each := numbers(text, name)) is not None), None)
    if not found:
        return (1,) * axes
    if len(found) not in (1, axes):
        raise ValueError
    return found if len(found) == axes else found * axes


def _pairs(text: str, names: tuple[str, ...], axes: int) -> list[tuple[int, int]]:
    """Beginning and end per axis: one number is repeated, none gives zeros. Raises ValueError for any other count."""
    found = next((each for name in names if (each := numbers(text, name)) is not None), None) or (0,)
    flat = found * (2 * axes) if len(found) == 1 else found
    if len(flat) != 2 * axes:
        raise ValueError
    return [(flat[2 * axis], flat[2 * axis + 1]) for axis in range(axes)]


def _window(text: str, rank: int) -> Details:
    window = _per_axis(text, ("window_dimensions",), rank)
    return {
        "window": window,
        "stride": _per_axis(text, ("window_strides",), len(window)),
        "padding": _pairs(text, ("padding",), len(window)),
    }


def _compare(text: str, rank: int) -> Details:
    match = _DIRECTION.search(text)
    return {"direction": match[1] if match else ""}


def _constant(text: str, rank: int) -> Details:
    """Details of a constant: "is_splat" where one value fills it, and "number" where that is a whole number."""
    match = re.search(r"dense<\s*([^\[\"].*?|)>", text)
    if match is None:
        return {}
    value = match[1].strip()
    return {"is_splat": True, **({"number": int(value)} if re.fullmatch(r"-?\d{1,19}", value) else {})}


#: Details by opcode, from the statement's text and the rank of its first operand.
DETAILS: Mapping[str, Callable[[str, int], Details]] = {
    "dot-general": _product,
    "ragged-dot": _ragged_product,
    "dot": _plain_product,
    "convolution": _convolution,
    "reduce": lambda text, rank: {"axes": numbers(text, "dimensions") or ()},
    "reduce-window": _window,
    "select-and-scatter": _window,
    "gather": lambda text, rank: {"slice_sizes": numbers(text, "slice_sizes") or ()},
    "compare": _compare,
    "constant": _constant,
}
