"""Types in HLO text: "f32[2,3]{1,0}", "(f32[], s32[2]{0})", "token[]"."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from placewright.importers.nested_text import Nesting
from placewright.importers.xla.program import FLOATS, Array, Type, array
from placewright.support.errors import InputError, shown

#: HLO's names of element types, mapped to placewright's.
ELEMENT_TYPES: Mapping[str, str] = {
    "pred": "bool",
    **{f"s{bits}": f"int{bits}" for bits in (2, 4, 8, 16, 32, 64)},
    **{f"u{bits}": f"uint{bits}" for bits in (2, 4, 8, 16, 32, 64)},
    "c64": "complex64",
    "c128": "complex128",
    **FLOATS,
}
#: The mark of the host's memory in a layout.
_HOST = "S(5)"
#: Tokens and handles.
_WITHOUT_SIZE = ("token", "opaque")
_MAX_NESTING = 16
_ARRAY = re.compile(r"\s*([a-z]\w*)\[([^\]]*)\](?:\{[^{}]*\})?")
_DIMENSIONS = re.compile(r"\s*(?:(?:<=)?\d{1,19}\s*(?:,\s*(?:<=)?\d{1,19}\s*)*)?")
_NESTING = Nesting(opening="{([", closing="})]")
pieces, end_of_brackets = _NESTING.pieces, _NESTING.end_of_brackets


def type_at(text: str, begin: int) -> tuple[Type, int]:
    """The type at a position, and where it ends. Raises InputError where there is none."""
    if text.startswith("(", begin):
        end = end_of_brackets(text, begin)
        if end < 0:
            raise InputError(f"the tuple type '{shown(text[begin:])}' does not end")
        return parse_type(text[begin:end]), end
    match = _ARRAY.match(text, begin)
    if match is None:
        raise InputError(f"'{shown(text[begin:])}' does not begin with a type")
    return parse_type(match[0]), match.end()


@lru_cache(maxsize=65536)
def parse_type(text: str, depth: int = 0) -> Type:
    """The type that a text names. Raises InputError for text that is no type, or for an unknown element type."""
    text = text.strip()
    if depth > _MAX_NESTING:
        raise InputError("a tuple type is nested too deeply")
    if text.startswith("("):
        return tuple(parse_type(piece, depth + 1) for piece in pieces(text[1:-1]))
    match = _ARRAY.match(text)
    if match is None or _DIMENSIONS.fullmatch(match[2]) is None:
        raise InputError(f"'{shown(text)}' is no type")
    if match[1] in _WITHOUT_SIZE:
        return Array((0,), "uint8", 0)
    if match[1] not in ELEMENT_TYPES:
        raise InputError(f"the element type '{shown(match[1])}' is not known")
    shape = tuple(int(extent.strip().removeprefix("<=")) for extent in match[2].split(",") if extent.strip())
    found = array(shape, ELEMENT_TYPES[match[1]])
    return found.at_host() if _HOST in match[0] else found
