"""A memory limit between the least that a training step needs and its peak; `library_steps.py` imports this."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

#: Bytes that suffice for every step.
_NO_LIMIT = 2**50
#: Position of the limit between least and peak; and its share of the peak, if the least is not known.
_SHARE, _SHARE_OF_PEAK = 0.6, 0.75
_MOST_GRAPHS = 4
_UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_SIZE = r"([\d.,]+) ?(B|KiB|MiB|GiB)\b"


@dataclass(frozen=True, kw_only=True)
class Limit:
    """A limit between least and peak, in bytes. source: of `least`. probe_seconds: processor time to find them."""

    chosen: int
    peak: int
    least: int
    source: str
    probe_seconds: float


def limit_of(fitted: Callable[[int], Any]) -> Limit:
    """The limit of a step. fitted: plans the step within so many bytes, and raises if that is refused."""
    began = time.process_time()
    peak = int(fitted(_NO_LIMIT).peak_bytes)
    least, source = _told_least(fitted, 1, peak), "told"
    if least is None:
        least, source = _tried_least(fitted, peak), "tried"
    chosen = _between(least, peak)
    # The first refusal may concern only the optimizer's step, or the first of several graphs.
    for _ in range(_MOST_GRAPHS):
        if (told := _told_least(fitted, chosen, peak)) is None:
            break
        least, chosen = told, _between(told, peak)
    return Limit(
        chosen=chosen,
        peak=peak,
        least=least or 0,
        source=source if least is not None else "none",
        probe_seconds=round(time.process_time() - began, 2),
    )


def _between(least: int | None, peak: int) -> int:
    return int(least + _SHARE * (peak - least)) if least is not None else int(_SHARE_OF_PEAK * peak)


def _told_least(fitted: Callable[[int], Any], limit: int, peak: int) -> int | None:
    """Bytes that the refusal of a limit says are needed; None if the limit is kept, or the refusal does not say."""
    try:
        fitted(limit)
    except Exception as error:
        if (sentence := refusal(error)) is None:
            raise
        missing = [limit + _most(found) for found in re.findall(_SIZE + " missing", sentence)]
        needed = [
            _most(found) for found in re.findall(r"(?:at least|smallest limit|needs?)\D{0,20}?" + _SIZE, sentence)
        ]
        return max((min(size, peak) for size in (*missing, *needed) if size > limit), default=None)
    return None


def _most(found: tuple[str, str]) -> int:
    """The most bytes that a rounded number of units can mean."""
    number, unit = found[0].replace(",", ""), _UNITS[found[1]]
    half = 0.5 * 10.0 ** -len(number.partition(".")[2]) if unit > 1 else 0.0
    return math.ceil((float(number) + half) * unit)


def _tried_least(fitted: Callable[[int], Any], peak: int) -> int | None:
    """The least of three limits, by bisection, that is not refused; None if all are."""
    low, high = 0, peak
    for _ in range(3):
        middle = (low + high) // 2
        try:
            fitted(middle)
            high = middle
        except Exception as error:
            if refusal(error) is None:
                raise
            low = middle
    return high if high < peak else None


def refusal(error: BaseException | None) -> str | None:
    """The first line of the placewright error that `error` is or comes from; None for all others."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if type(error).__module__.partition(".")[0] == "placewright":
            return (str(error).strip().splitlines() or [type(error).__name__])[0]
        error = getattr(error, "inner_exception", None) or error.__cause__ or error.__context__
    return None
