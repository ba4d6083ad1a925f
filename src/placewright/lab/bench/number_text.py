"""Numbers of tables and figures with about three significant digits."""

from __future__ import annotations

from placewright.lab.statistics import Mean

_MAX_DECIMALS = 4


def decimals_for(value: float) -> int:
    """Return the number of decimals: 123, 12.3, 1.23, 0.12, 0.012."""
    for decimals, least in enumerate((99.95, 9.995, 0.0995)):
        if abs(value) >= least:
            return decimals
    return 3


def format_number(value: float | None, sign: str = "", decimals: int | None = None) -> str:
    """Format a number: "12.3", "0" for exactly 0, "" for None. sign: "+" writes it on numbers above 0 too."""
    if value is None:
        return ""
    if value == 0:
        return "0"
    text = f"{value:{sign},.{decimals_for(value) if decimals is None else decimals}f}"
    return text if text.strip("+-0.,") else text.lstrip("+-")


def format_mean(mean: Mean | None, sign: str = "") -> str:
    """Format a mean: "12.3 ± 0.4" with the half-width of the confidence interval, where there is one."""
    if mean is None:
        return ""
    decimals = decimals_for(mean.value)
    if not mean.half_width:
        return format_number(mean.value, sign)
    if mean.value == 0:
        decimals = decimals_for(mean.half_width)
    # A small interval must not be rounded to 0 because there are few decimals.
    while decimals < _MAX_DECIMALS and round(mean.half_width, decimals) == 0:
        decimals += 1
    return f"{format_number(mean.value, sign, decimals)} ± {mean.half_width:,.{decimals}f}"
