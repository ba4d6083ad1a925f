"""What a learned list scheduler is: sizes of its score, and what it places."""

from __future__ import annotations

from dataclasses import dataclass

import placewright._core as _core
from placewright.support.errors import InputError


@dataclass(frozen=True, kw_only=True)
class LearnedListConfiguration:
    """hidden: units of the score. window: ready clusters that are compared at once, those of highest bottom level.
    parts: of the time of all ops, one over these is the most a cluster takes; a plan tries them in this order, and
    `guide` takes the first."""

    hidden: int = 8
    window: int = 32
    parts: tuple[int, ...] = (128, 64, 256, 32, 512, 16)

    def __post_init__(self) -> None:
        for name, most in (("hidden", _core.WIDEST_PAIR_SCORE), ("window", 65536)):
            if not 1 <= (value := getattr(self, name)) <= most:
                raise InputError(f"{name} is {value}; it must be from 1 to {most:,}")
        if not self.parts or not all(1 <= part <= 2**20 for part in self.parts):
            raise InputError(f"parts is {list(self.parts)}; it must be one number from 1 to {2**20:,} or several")
