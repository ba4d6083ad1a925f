"""Types in StableHLO text: "tensor<2x3xf32>", "tuple<tensor<f32>, tensor<i1>>", "(A, B) -> C"."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from placewright.importers.nested_text import Nesting
from placewright.importers.xla.program import FLOATS, Array, Type, array
from placewright.support.errors import InputError, shown

_ELEMENT_TYPES: Mapping[str, str] = {
    "i1": "bool",
    "index": "int64",
    **{f"{sign}{bits}": f"int{bits}" for sign in ("i", "si") for bits in (2, 4, 8, 16, 32, 64)},
    **{f"ui{bits}": f"uint{bits}" for bits in (2, 4, 8, 16, 32, 64)},
    "tf32": "float32",
    "complex<f32>": "complex64",
    "complex<f64>": "complex128",
    "f6E2M3FN": "float6_e2m3fn",
    "f6E3M2FN": "float6_e3m2fn",
    **{name[:2] + name[2:].upper(): dtype for name, dtype in FLOATS.items()},
}
_TENSOR = re.compile(r"tensor<((?:(?:\d{1,19}|\?)x)*)(.*)>", re.DOTALL)
_QUANTISED = re.compile(r"!quant\.uniform<([iu]+\d+)")
_MAX_NESTING = 16
_NESTING = Nesting(opening="<{([", closing=">})]")
pieces, end_of_brackets = _NESTING.pieces, _NESTING.end_of_brackets
split_signature = _NESTING.around_last_colon


def parse_types(text: str) -> list[Type]:
    """The types of "A, B", in brackets or not."""
    text = text.strip()
    if text.startswith("(") and end_of_brackets(text, 0) == len(text):
        text = text[1:-1]
    return [parse_type(piece) for piece in pieces(text)]


@lru_cache(maxsize=65536)
def parse_type(text: str, depth: int = 0) -> Type:
    """The type that a text names. Raises InputError for text that is no type of known size."""
    text = text.strip()
    if depth > _MAX_NESTING:
        raise InputError("a tuple type is nested too deeply")
    if text.startswith("tuple<") and text.endswith(">"):
        return tuple(parse_type(piece, depth + 1) for piece in pieces(text[6:-1]))
    if text in ("!stablehlo.token", "!mhlo.token"):
        return Array((0,), "uint8", 0)
    match = _TENSOR.fullmatch(text)
    if match is None:
        raise InputError(f"'{shown(text)}' is no type of a tensor")
    if "?" in match[1]:
        raise InputError(f"the type '{shown(text)}' leaves an extent open")
    element = next(pieces(match[2]), "")
    quantised = _QUANTISED.match(element)
    element = quantised[1].replace("u", "ui").replace("uii", "ui") if quantised else element
    if element not in _ELEMENT_TYPES:
        raise InputError(f"the element type '{shown(element)}' is not known")
    return array(tuple(int(extent) for extent in match[1].split("x") if extent), _ELEMENT_TYPES[element])
