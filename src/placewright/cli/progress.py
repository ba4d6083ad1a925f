"""What a running search reports on stderr: only where someone watches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from placewright.cli.printing import is_watched
from placewright.problem.objective import Objective
from placewright.search.budget import OnProgress, Progress
from placewright.support.quantities import format_bytes
from placewright.terminal.text import format_objective, printable


@contextmanager
def watched(model: str, objective: Objective) -> Iterator[OnProgress | None]:
    """A line on stderr that follows the search and is wiped at its end; None when stderr is no terminal."""
    if not is_watched():
        yield None
        return
    from rich.console import Console

    console = Console(stderr=True, highlight=False, markup=False)
    with console.status(f"reading {printable(model)}") as status:
        yield lambda progress: status.update(progress_line(progress, objective))


def progress_line(progress: Progress, objective: Objective) -> str:
    """Method, evaluations, rate and best so far: "brkga: 3,200 evaluations, 8,123/s, best 12.3 ms"."""
    rate = progress.evaluations / progress.seconds if progress.seconds > 0 else 0
    over = progress.bytes_over_limit
    excess = f", {format_bytes(over)} over the memory limit" if over else ""
    best = format_objective(objective, progress.best)
    return f"{progress.method}: {progress.evaluations:,} evaluations, {rate:,.0f}/s, best {best}{excess}"
