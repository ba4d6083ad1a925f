"""What `check` prints of a plan or a memory map."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType

from placewright.memory_levels.record import MemoryMap
from placewright.memory_levels.words import format_ps
from placewright.plans.record import Plan
from placewright.support.quantities import counted
from placewright.terminal.tables import line

_MAX_PROBLEMS = 20


def check_table(found: Plan | MemoryMap, problems: Sequence[str], unchecked: Sequence[str]) -> Iterator[RenderableType]:
    if not problems:
        yield line(f"correct: {_confirmed(found)}")
        yield from (line(f"not checked: {claim}") for claim in unchecked)
        return
    yield line(f"wrong: {counted(len(problems), 'difference')}", "bold red")
    yield from (line(f"- {problem}") for problem in problems[:_MAX_PROBLEMS])
    more = len(problems) - _MAX_PROBLEMS
    if more > 0:
        yield line(f"and {more:,} more")


def _confirmed(found: Plan | MemoryMap) -> str:
    if isinstance(found, MemoryMap):
        return f"{format_ps(found.latency_ps)}, every level within its capacity"
    return f"{len(found.ops):,} ops and {len(found.transfers):,} transfers simulate to the same plan"
