"""Sizes, durations and bandwidths as people write them: "80GiB", "5us", "25GB/s"; read exactly, written short;
whole numbers and sizes as callers pass them; and other text for tables."""

from __future__ import annotations

import math
import operator
import re
from decimal import ROUND_FLOOR, ROUND_HALF_UP, Decimal
from fractions import Fraction
from numbers import Number
from typing import Any, Literal

from placewright.support.errors import InputError, printable, shown

#: Times in ns, sizes in bytes and counts stay below, so that sums of two fit into an int64.
QUANTITY_LIMIT = 2**62
_QUANTITY = re.compile(r"\s*([0-9][0-9_]*(?:\.[0-9]+)?|\.[0-9]+)(?:[eE]([+-]?[0-9]{1,3}))?\s*([A-Za-zµμ]*)\s*")
#: No quantity needs more characters; reading a number takes time that grows with its length squared.
_MAX_LENGTH = 100
_BITS = re.compile(r"[KMGTP]b")

_BYTES_PER_UNIT = {
    "b": 1,
    **{f"{prefix}b": 1000**power for power, prefix in enumerate("kmgtp", start=1)},
    **{f"{prefix}ib": 1024**power for power, prefix in enumerate("kmgtp", start=1)},
}
_NS_PER_UNIT = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,  # micro sign
    "μs": 10**3,  # Greek mu
    "ms": 10**6,
    "s": 10**9,
    "min": 60 * 10**9,
    "h": 3600 * 10**9,
}
_BYTES_LADDER = [(1024**power, unit) for power, unit in enumerate(["B", "KiB", "MiB", "GiB", "TiB", "PiB"])]
_TIME_LADDER = [(_NS_PER_UNIT[unit], unit) for unit in ("ns", "us", "ms", "s", "min", "h")]


def parse_bytes(text: str) -> int:
    """Bytes of "80GB" (powers of 1000), "10GiB" (powers of 1024), "1.5 MiB" or "4096"; fractions round down.

    Raises InputError when the text is no such size, is negative, or does not fit.
    """
    number, unit = _split(text, "size", "10GiB or 80GB")
    if _BITS.fullmatch(unit):
        raise InputError(f"size '{text}' is in bits; write {unit[0]}B or {unit[0]}iB for bytes")
    factor = _BYTES_PER_UNIT.get(unit.lower() or "b")
    if factor is None:
        raise InputError(f"size '{text}' has the unknown unit '{unit}'; write it like 10GiB or 80GB")
    return _whole(number * factor, ROUND_FLOOR, "size", text)


def whole_number(name: str, value: Any, low: int, high: int) -> int:
    """`value` as an int. Raises InputError, naming the argument, unless it is a whole number from low to high."""
    try:
        number = operator.index(value)
    except TypeError:
        number = low - 1
    if isinstance(value, bool) or not low <= number <= high:
        raise InputError(f"{name} is {value!r}; it must be a whole number from {low} to {high}")
    return number


def bytes_or_none(name: str, value: Any) -> int | None:
    """Bytes from an int or a size like "10GiB"."""
    if value is None:
        return None
    if not isinstance(value, str | Number):
        raise InputError(f"{name} is {shown(repr(value))}; it must be a number of bytes, or text like '8GiB'")
    return whole_number(name, parse_bytes(value) if isinstance(value, str) else value, 0, QUANTITY_LIMIT - 1)


def parse_duration_ns(text: str) -> int:
    """Nanoseconds of "1s", "50ms", "5us", "100ns", "2min" or "1h", to the nearest; a unit is required.

    Raises InputError when the text is no such duration, is negative, or does not fit.
    """
    number, unit = _split(text, "duration", "50ms or 1s")
    factor = _NS_PER_UNIT.get(unit.lower())
    if factor is None:
        problem = f"has the unknown unit '{unit}'" if unit else "has no unit"
        raise InputError(f"duration '{text}' {problem}; write it like 50ms or 1s")
    return _whole(number * factor, ROUND_HALF_UP, "duration", text)


def parse_bandwidth(text: str) -> float:
    """Bytes per second of "25GB/s", "1.5TiB/s" or, for networks, "100Gbit/s".

    Raises InputError when the text is no such bandwidth or is less than one byte per second.
    """
    amount, slash, per = text.strip().rpartition("/")
    if not slash or per.strip() != "s":
        raise InputError(f"bandwidth '{shown(text)}' is not understood; write it like 25GB/s or 100Gbit/s")
    if amount.strip().endswith("bit"):
        rate = parse_bytes(amount.strip().removesuffix("bit") + "B") / 8
    else:
        rate = float(parse_bytes(amount))
    if rate < 1:
        raise InputError(f"bandwidth '{text}' is less than one byte per second")
    return rate


def format_bytes(size_bytes: int) -> str:
    """A size with three significant digits in binary units: "512 B", "1.62 GiB"."""
    return _climb(size_bytes, _BYTES_LADDER)


def limit_text(size_bytes: int) -> str:
    """The least memory limit of at most two decimals that holds a size, as `--memory-limit` takes it: "15MiB",
    "3.2GiB"."""
    mib = -(-size_bytes // 2**20)
    if mib < 1024:
        return f"{mib}MiB"
    hundredths = -(-size_bytes * 100 // 2**30)
    return f"{Decimal(hundredths) / 100:f}GiB"


def format_time_ns(time_ns: int) -> str:
    """A time with three significant digits: "750 ns", "12.4 ms", "16.7 min"."""
    return _climb(time_ns, _TIME_LADDER)


def round_marks(low: int, high: int, most: int, *, kind: Literal["bytes", "time"]) -> list[tuple[float, str]]:
    """Round values from low to high for an axis, `most` at the most, in one unit: 17 GiB, 17.5 GiB and so on."""
    ladder = _BYTES_LADDER if kind == "bytes" else _TIME_LADDER
    unit, name = next(((unit, name) for unit, name in reversed(ladder) if unit <= high), ladder[0])
    power = 10.0 ** math.floor(math.log10(max(high - low, 1) / unit / most))
    step = next(power * factor for factor in (1, 2, 5, 10, 20) if power * factor * most >= (high - low) / unit)
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    first, last = math.ceil(low / unit / step - 1e-9), math.floor(high / unit / step + 1e-9)
    return [(index * step * unit, f"{index * step:.{decimals}f} {name}") for index in range(first, last + 1)]


def _split(text: str, what: str, example: str) -> tuple[Decimal, str]:
    match = _QUANTITY.fullmatch(text) if len(text) <= _MAX_LENGTH else None
    if match is None:
        raise InputError(f"{what} '{shown(text)}' is not understood; write it like {example}")
    digits, exponent, unit = match.groups()
    return Decimal(digits.replace("_", "")).scaleb(int(exponent or 0)), unit


def _whole(value: Decimal, rounding: str, what: str, text: str) -> int:
    if value >= QUANTITY_LIMIT:
        raise InputError(f"{what} '{text}' is too large")
    return int(value.to_integral_value(rounding=rounding))


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """ "1 graph", "2,000 graphs"; plural where an s is not enough."""
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


def _climb(value: int, ladder: list[tuple[int, str]]) -> str:
    """The first unit in which the rounded value has at most three digits before the point; the last one otherwise."""
    sign, magnitude = ("-", -value) if value < 0 else ("", value)
    base, (top, top_unit) = ladder[0][1], ladder[-1]
    if magnitude < 1000:
        return f"{sign}{magnitude} {base}"
    for factor, unit in ladder[1:]:
        digits = _three_digits(Fraction(magnitude, factor))
        if float(digits) < 1000:
            return f"{sign}{digits} {unit}"
    return f"{sign}{round(Fraction(magnitude, top)):,} {top_unit}"


def _three_digits(value: Fraction) -> str:
    """The value with three significant digits; 9.996 becomes 10.0, 0.9765 becomes 0.977."""
    for decimals, limit in ((3, 1), (2, 10), (1, 100)):
        text = f"{float(value):.{decimals}f}"
        if float(text) < limit:
            return text
    return f"{float(value):.0f}"


def shortened(text: str, width: int) -> str:
    """The text in at most `width` characters, without its middle, since names of layers differ at both ends."""
    text = printable(text)
    if len(text) <= width:
        return text
    tail = (width - 1) * 2 // 3
    return f"{text[: width - 1 - tail]}…{text[-tail:]}"


def format_count(count: int, unit: str = "") -> str:
    """A large number with three significant digits: "1.23 T", or of a unit "1.23 TFLOP"."""
    value = float(count)
    for prefix in ("", "K", "M", "G", "T", "P"):
        if abs(value) < 999.5:
            digits = f"{value:.3g}" if prefix else f"{value:.0f}"
            return f"{digits} {prefix}{unit}".rstrip()
        value /= 1000
    return f"{value:,.0f} E{unit}"


def share(part: int, whole: int) -> str:
    """A percentage, "<1%" for what would round to none; of nothing, nothing."""
    if not whole:
        return "-"
    text = f"{part / whole:.0%}"
    return "<1%" if text == "0%" and part > 0 else text


def signed_percent(ratio: float, decimals: int = 1) -> str:
    """A change as a share: "+12.3%", "-4.0%", "0.0%" for what rounds to that, from either side."""
    text = f"{ratio:+.{decimals}%}"
    return text if float(text[:-1]) else text[1:]


def change(value: int, reference: int) -> str:
    """The change from `reference` to `value`: "+12.3%", "-4.0%", "0.0%" for less than that, or "same"."""
    if value == reference:
        return "same"
    if reference == 0:
        return "more" if value > 0 else "less"
    ratio = value / reference - 1
    return signed_percent(ratio) if ratio < 10 else f"{value / reference:,.0f}x"


def proven_change(least: int, reference: int) -> str:
    """The least by which something exceeds `reference`; "none" where that is nothing, which informs nobody."""
    text = change(least, reference)
    return text if least > reference and text != "0.0%" else "none"
