"""The output of `check`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType

from placewright.plans.record import Plan
from placewright.support.quantities import counted
from placewright.terminal.tables import line

_MAX_PROBLEMS = 20


def check_table(plan: Plan, problems: Sequence[str], unchecked: Sequence[str]) -> Iterator[RenderableType]:
    steps = f"{len(plan.ops):,} ops and {len(plan.transfers):,} transfers"
    return verdict_table(f"{steps} simulate to the same plan", problems, unchecked)


def verdict_table(confirmed: str, problems: Sequence[str], unchecked: Sequence[str]) -> Iterator[RenderableType]:
    """Yield the verdict. confirmed: the sentence for when there are no problems."""
    if not problems:
        yield line(f"correct: {confirmed}")
        yield from (line(f"not checked: {claim}") for claim in unchecked)
        return
    yield line(f"wrong: {counted(len(problems), 'difference')}", "bold red")
    yield from (line(f"- {problem}") for problem in problems[:_MAX_PROBLEMS])
    more = len(problems) - _MAX_PROBLEMS
    if more > 0:
        yield line(f"and {more:,} more")
