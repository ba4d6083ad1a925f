"""Times of maps as text. They are held in ps, and maps differ by fractions of a percent."""

from __future__ import annotations

_UNITS = ((10**12, "s"), (10**9, "ms"), (10**6, "us"), (10**3, "ns"))


def format_ps(time_ps: int) -> str:
    """Format a time with five significant digits: "106.92 us", "1.3937 ms"."""
    for factor, unit in _UNITS:
        if abs(time_ps) >= factor:
            value = time_ps / factor
            digits = 5 - len(str(int(abs(value))))
            return f"{value:,.{max(0, digits)}f} {unit}"
    return f"{time_ps} ps"


def gap_words(gap: float) -> str:
    """Describe the largest distance of a map from the optimum."""
    if gap == float("inf"):
        return "gap unknown"
    return "proven optimal" if gap <= 1e-6 else f"gap {gap:.2%}"
