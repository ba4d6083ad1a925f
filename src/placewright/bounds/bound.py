"""What a bound is."""

from __future__ import annotations

from dataclasses import dataclass

from placewright.plan import BoundReason


@dataclass(frozen=True, slots=True)
class Bound:
    """No valid plan has an objective below value (ns or bytes); reason says why in a few words."""

    value: int
    reason: BoundReason
