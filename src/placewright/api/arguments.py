"""Arguments of `plan`, checked and brought into one form, so that every plan can be saved and read back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Real
from pathlib import Path
from typing import Any

from placewright.problem.constraints import Constraints
from placewright.search.run.budget import UNLIMITED, Budget
from placewright.support.errors import InputError
from placewright.support.quantities import parse_duration_ns, whole_number


def share(name: str, value: Any) -> float | None:
    """A share from a number like 0.1 or text like "10%". Raises InputError, naming the argument, for what is none."""
    if value is None:
        return None
    text = value.strip() if isinstance(value, str) else ""
    try:
        found = float(text.removesuffix("%")) / 100 if text.endswith("%") else float(value)
    except (TypeError, ValueError):
        found = -1.0
    if isinstance(value, bool) or not 0 <= found < float("inf"):
        raise InputError(f"{name} is {value!r}; it must be a share like 0.1 or '10%'")
    return found


def budget(evaluations: Any, time_limit: Any, default_evaluations: int) -> Budget:
    """The budget of a search: the default number of evaluations only where neither limit is given."""
    seconds: float | None = None
    if isinstance(time_limit, str):
        seconds = parse_duration_ns(time_limit) / 1e9
    elif isinstance(time_limit, Real) and not isinstance(time_limit, bool):
        seconds = float(time_limit)
    elif time_limit is not None:
        raise InputError(f"time_limit is {time_limit!r}; it must be seconds or a duration like '1s'")
    if evaluations is not None:
        return Budget(evaluations=whole_number("evaluations", evaluations, 1, UNLIMITED), seconds=seconds)
    return Budget(evaluations=default_evaluations if seconds is None else UNLIMITED, seconds=seconds)


def recorded_options(model: Any, dims: Mapping[str, int] | None, limits: Budget) -> dict[str, Any]:
    """The options that a plan or a map records, as JSON values."""
    return {
        "model": str(model) if isinstance(model, str | Path) else None,
        "dims": {name: int(size) for name, size in (dims or {}).items()},
        "evaluations": None if limits.evaluations == UNLIMITED else limits.evaluations,
        "time_limit_s": limits.seconds,
    }


def constraints(pins: Any, forbids: Any, colocate: Any) -> Constraints:
    """Constraints from mappings of pattern to device, and groups of patterns."""
    return Constraints(
        pins=_rules("pins", pins),
        forbids=_rules("forbids", forbids, many=True),
        colocations=_groups("colocate", colocate),
    )


def _rules(name: str, rules: Any, *, many: bool = False) -> tuple[tuple[str, str], ...]:
    """Pairs of pattern and device. many: whether a pattern may have a list of devices."""
    if rules is None:
        return ()
    if not isinstance(rules, Mapping) or not all(isinstance(pattern, str) for pattern in rules):
        raise InputError(f"{name} is {rules!r}; it must map patterns to devices, like {{'layers.0.*': 0}}")
    pairs = []
    for pattern, found in rules.items():
        several = isinstance(found, list | tuple)
        if several and not (many and found):
            raise InputError(f"{name} gives '{pattern}' {found!r}, where one device belongs")
        pairs += [(pattern, str(device)) for device in (found if several else [found])]
    return tuple(pairs)


def globs(name: str, value: Any) -> list[str]:
    """Patterns as a list. Raises InputError, naming the argument, for anything but several of them."""
    is_several = isinstance(value, Sequence) and not isinstance(value, str)
    if not is_several or not all(isinstance(pattern, str) and pattern for pattern in value):
        raise InputError(f"{name} is {value!r}; it must be a list of patterns, like ['encoder.*']")
    return list(value)


def _groups(name: str, groups: Any) -> tuple[tuple[str, ...], ...]:
    def is_list(value: Any) -> bool:
        return isinstance(value, Sequence) and not isinstance(value, str)

    if not is_list(groups) or not all(is_list(group) and len(group) > 1 for group in groups):
        raise InputError(
            f"{name} is {groups!r}; it must hold groups of at least two patterns, like [['embed*', 'head*']]"
        )
    if not all(isinstance(pattern, str) for group in groups for pattern in group):
        raise InputError(f"{name} is {groups!r}; patterns are strings")
    return tuple(tuple(group) for group in groups)
