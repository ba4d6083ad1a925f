"""Text from files and numbers, as terminals may show them."""

from __future__ import annotations

from placewright.support.errors import printable as printable


def shortened(text: str, width: int) -> str:
    """At most `width` characters: the middle is left out, since names of layers differ at both ends."""
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


def change(value: int, reference: int) -> str:
    """How far `value` is from `reference`: "+12.3%", "-4.0%", "0.0%" for less than that, or "same"."""
    if value == reference:
        return "same"
    if reference == 0:
        return "more" if value > 0 else "less"
    ratio = value / reference - 1
    if abs(ratio) < 0.0005:
        return "0.0%"
    return f"{ratio:+.1%}" if ratio < 10 else f"{value / reference:,.0f}x"
