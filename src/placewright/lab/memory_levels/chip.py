"""A chip: its speed of computation, and its memory levels from the fastest to the slowest."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

from placewright.support.errors import InputError, shown
from placewright.support.quantities import QUANTITY_LIMIT

#: The core packs its data per level into a few words.
MAX_LEVELS = 8
PS_PER_SECOND = 10**12
#: Times per byte are in units of 2^-20 ps.
RATE_SHIFT = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryLevel:
    """One memory of a chip.

    Attributes
    ----------
    name
        Its usual name: "SRAM".
    capacity_bytes
        The most bytes of tensors that it can hold; 0 for a level that cannot be used.
    bandwidth_bytes_per_s
        Of its port, which all transfers to and from the level share.
    latency_ns
        Time once per op before the first byte arrives.
    is_prefetched
        True if weights in this level may be fetched to the fastest level while the previous op runs.
    """

    name: str
    capacity_bytes: int
    bandwidth_bytes_per_s: float
    latency_ns: int = 0
    is_prefetched: bool = False

    @property
    def inverse_rate(self) -> int:
        """The time per byte in units of 2^-20 ps, rounded up."""
        return max(1, -(-(PS_PER_SECOND << RATE_SHIFT) // int(self.bandwidth_bytes_per_s)))

    def transfer_ps(self, size_bytes: int) -> int:
        """Return the time of a transfer of that many bytes, rounded up."""
        return (size_bytes * self.inverse_rate + (1 << RATE_SHIFT) - 1) >> RATE_SHIFT


@dataclass(frozen=True, slots=True, kw_only=True)
class Chip:
    """One device whose tensors live in memory levels.

    Attributes
    ----------
    name
        Name of the preset or file.
    levels
        From the fastest to the slowest.
    mac_rate
        Multiply-adds per second of its matrix engine.
    vector_rate
        Elements per second of its vector units.
    op_overhead_ns
        Additional time of every op.
    float_bytes
        Bytes of an element of a floating-point tensor on the chip, which may quantise; None for those of the graph.
    description, source, assumptions
        Descriptions of the chip, of the source of its numbers, and of those that nobody published.
    """

    name: str
    levels: tuple[MemoryLevel, ...]
    mac_rate: float
    vector_rate: float
    op_overhead_ns: int = 0
    float_bytes: int | None = None
    description: str = ""
    source: str = ""
    assumptions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not 1 <= len(self.levels) <= MAX_LEVELS:
            raise InputError(f"chip '{shown(self.name)}' has {len(self.levels)} levels; it may have 1 to {MAX_LEVELS}")
        for level in self.levels:
            _check_level(level)
        _check_levels(self.levels)
        for name, rate in (("mac_rate", self.mac_rate), ("vector_rate", self.vector_rate)):
            if not (math.isfinite(rate) and rate >= 1):
                raise InputError(f"{name} is {shown(rate)}; it must be a number of at least 1 per second")
        if not 0 <= self.op_overhead_ns < QUANTITY_LIMIT // 1000:
            raise InputError(f"op_overhead is {shown(self.op_overhead_ns)} ns, which is out of range")
        if self.float_bytes is not None and not 1 <= self.float_bytes <= 8:
            raise InputError(f"float_bytes is {shown(self.float_bytes)}; it must be a whole number from 1 to 8")

    @property
    def has_prefetch(self) -> bool:
        return any(level.is_prefetched for level in self.levels)

    @property
    def level_names(self) -> tuple[str, ...]:
        return tuple(level.name for level in self.levels)


def _check_level(level: MemoryLevel) -> None:
    label = f"level '{shown(level.name)}'"
    if not (math.isfinite(level.bandwidth_bytes_per_s) and 1 <= level.bandwidth_bytes_per_s < QUANTITY_LIMIT):
        raise InputError(
            f"{label} has a bandwidth of {shown(level.bandwidth_bytes_per_s)} bytes/s; it must be positive"
        )
    if not 0 <= level.capacity_bytes < QUANTITY_LIMIT:
        raise InputError(f"{label} has an impossible capacity of {shown(level.capacity_bytes)} bytes")
    if not 0 <= level.latency_ns < QUANTITY_LIMIT // 1000:
        raise InputError(f"{label} has an impossible latency of {shown(level.latency_ns)} ns")


def _check_levels(levels: tuple[MemoryLevel, ...]) -> None:
    names = [level.name for level in levels]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"two levels are named '{shown(name)}'")
    for faster, slower in pairwise(levels):
        if slower.bandwidth_bytes_per_s > faster.bandwidth_bytes_per_s:
            raise InputError(
                f"level '{shown(slower.name)}' is faster than '{shown(faster.name)}', which stands before it; "
                "levels stand from the fastest to the slowest"
            )
    if levels[0].is_prefetched:
        raise InputError(f"level '{shown(levels[0].name)}' is the fastest, so nothing can be fetched from it early")
