"""Details of HLO instructions, as xla/attributes.py and xla/loops.py read them, from their attributes as text."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from placewright.importers.xla.attributes import axes_of_product, places_of
from placewright.importers.xla.program import Array, whole_numbers

Attributes = Mapping[str, str]
Details = dict[str, Any]
_DIM_LABELS = re.compile(r"([\dbf?]+)_([\dio?]+)->([\dbf?]+)")
_WINDOW = re.compile(r"(\w+)=([^\s}]+)")
_TRIPS = re.compile(r'"known_trip_count"\s*:\s*\{\s*"n"\s*:\s*"?(\d{1,18})')


def _product(attributes: Attributes) -> Details:
    """Axes of a dot."""
    return axes_of_product(lambda name: whole_numbers(attributes.get(name.replace("dimensions", "dims"), "")))


def _ragged_product(attributes: Attributes) -> Details:
    """Axes of a product of every row with the matrix of its group."""
    return {**_product(attributes), "groups": whole_numbers(attributes.get("rhs_group_dims", ""))}


def library_product(attributes: Attributes) -> Details | None:
    """Axes of a product that a library computes, from its configuration; None where that has no axes."""
    try:
        configuration = json.loads(attributes.get("backend_config", ""))
        numbers = configuration.get("gemm_backend_config", configuration)["dot_dimension_numbers"]
        return axes_of_product(lambda name: tuple(int(axis) for axis in numbers.get(name, ())))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def convolution(attributes: Attributes) -> Details:
    """Axes and window of a convolution. Raises ValueError where its labels are missing or malformed."""
    match = _DIM_LABELS.fullmatch(attributes.get("dim_labels", ""))
    if match is None:
        raise ValueError
    lhs_spec, rhs_spec = places_of(match[1], "bf"), places_of(match[2], "oi")
    window = _window(attributes, len(lhs_spec) - 2)
    return {
        "lhs_spec": lhs_spec,
        "rhs_spec": rhs_spec,
        "stride": window["stride"],
        "padding": window["padding"],
        "lhs_dilation": window["lhs_dilate"],
        "rhs_dilation": window["rhs_dilate"],
        "groups": max(1, *whole_numbers(attributes.get("feature_group_count", "1"))[:1], 1),
    }


def _window(attributes: Attributes, rank: int) -> Details:
    """A window's settings per axis. Raises ValueError where one has another number of axes."""
    given = dict(_WINDOW.findall(attributes.get("window", "")))
    sides = (
        [tuple(map(int, pair.split("_"))) for pair in given["pad"].split("x")] if "pad" in given else [(0, 0)] * rank
    )
    found: Details = {"padding": sides}
    for name in ("size", "stride", "lhs_dilate", "rhs_dilate"):
        found[name] = tuple(map(int, given[name].split("x"))) if name in given else (1,) * rank
    if any(len(each) != rank for each in found.values()) or any(len(pair) != 2 for pair in sides):
        raise ValueError
    return found


def window(attributes: Attributes, rank: int) -> Details:
    """Window of a pooling."""
    found = _window(attributes, rank)
    return {"window": found["size"], "stride": found["stride"], "padding": found["padding"]}


def trips(attributes: Attributes) -> Details:
    """The trip count of a loop; empty where XLA has not found it."""
    match = _TRIPS.search(attributes.get("backend_config", ""))
    return {"trips": int(match[1])} if match else {}


def scan(attributes: Attributes, arrays: Sequence[Sequence[Array]]) -> Details:
    """Trip count of a scan, and how many of its arrays are stacked and carried. arrays: those that go in and those that
    come out, stacked ones before carried ones. Raises ValueError where they do not fit the attributes."""
    (axis,) = whole_numbers(attributes["dimensions"])
    (carry,) = whole_numbers(attributes.get("num_carries", "0"))
    stacked, made = (each[: len(each) - carry] for each in arrays)
    lengths = {each.shape[axis] for each in stacked or made}
    if not 0 <= carry <= min(map(len, arrays)) or axis < 0 or len(lengths) != 1:
        raise ValueError
    return {"trips": lengths.pop(), "consts": len(stacked), "stacked": len(made), "carry": carry}


DETAILS: Mapping[str, Callable[[Attributes], Details]] = {
    "dot": _product,
    "ragged-dot": _ragged_product,
    "convolution": convolution,
    "while": trips,
    "reduce": lambda attributes: {"axes": whole_numbers(attributes.get("dimensions", ""))},
    "gather": lambda attributes: {"slice_sizes": whole_numbers(attributes.get("slice_sizes", ""))},
    "compare": lambda attributes: {"direction": attributes.get("direction", "")},
    "get-tuple-element": lambda attributes: {"index": whole_numbers(attributes["index"])[0]},
}
