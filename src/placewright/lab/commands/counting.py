"""Progress of a long command on stderr: a bar on a terminal, elsewhere a line a minute."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from placewright.cli.printing import is_quiet, is_watched
from placewright.support.quantities import counted

#: Called with the number of finished items and the name of the last one.
Advance = Callable[[int, str], None]

_SECONDS_BETWEEN_LINES = 60.0


@contextmanager
def counting(total: int, unit: str) -> Iterator[Advance]:
    """Yield a function to call as the work proceeds. unit: what is counted, in the plural."""
    if not is_watched():
        yield _unheard if is_quiet() else _lines(total, unit)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        MofNCompleteColumn(),
        TextColumn(unit),
        BarColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.description}", markup=False),
    )
    with Progress(*columns, console=Console(stderr=True, highlight=False), transient=True) as progress:
        task = progress.add_task("", total=total)
        yield lambda done, what: progress.update(task, completed=done, description=what)


def _unheard(done: int, what: str) -> None:
    """Report nothing, for --quiet."""


def _lines(total: int, unit: str) -> Advance:
    last = time.monotonic()
    # Items that were done before (a killed training that goes on, say) took none of this run's time.
    first: tuple[int, float] | None = None

    def advance(done: int, _: str) -> None:
        nonlocal first, last
        now = time.monotonic()
        begun, began = first = first or (done, now)
        if done > begun and now - last >= _SECONDS_BETWEEN_LINES:
            last = now
            minutes_left = round((now - began) / (done - begun) * (total - done) / 60)
            left = counted(minutes_left, "minute") if minutes_left else "less than a minute"
            print(f"{done:,} of {total:,} {unit}, {left} left", file=sys.stderr, flush=True)

    return advance
