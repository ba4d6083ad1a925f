"""Progress of a long command on stderr, shown only on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from placewright.cli.printing import is_quiet, is_watched
from placewright.search.run.budget import OnProgress, Progress
from placewright.support.errors import printable
from placewright.support.quantities import format_bytes

#: Shows the current activity.
Show = Callable[[str], None]


@contextmanager
def staged() -> Iterator[Show]:
    """Show a line on stderr with the current activity, and wipe it at the end; nothing when stderr is no terminal."""
    if not is_watched():
        yield lambda stage: None
        return
    from rich.console import Console

    console = Console(stderr=True, highlight=False, markup=False)
    with console.status("") as status:
        yield lambda stage: status.update(printable(stage))


@contextmanager
def watched(model: str, words: Callable[[int], str]) -> Iterator[OnProgress | None]:
    """Show a line on stderr that follows the search, and wipe it at the end; yield None when stderr is no terminal.

    words: formats the best value so far.
    """
    with staged() as show:
        show(f"reading {model}")
        yield following(show, words)


def following(show: Show, words: Callable[[int], str]) -> OnProgress | None:
    """Return a callback that shows the progress of a search; None when stderr is no terminal. words: formats the best
    value so far."""
    return (lambda progress: show(progress_line(progress, words))) if is_watched() else None


def announce_effort(solver: str, time_limit: str | None) -> None:
    """Announce on stderr that a solver takes long unless its time is limited, and what can be done. Raises InputError
    for an unknown solver."""
    from placewright.methods.table import METHODS, find_method

    find_method(solver)
    effort = getattr(METHODS.get(solver), "effort", None)
    if effort is not None and time_limit is None and not is_quiet():
        took = f"some {effort:.0f} s, more on a busy machine or a large graph"
        print(
            f"placewright: {solver} takes {took}; --time-limit shortens it, Ctrl-C keeps the best plan so far",
            file=sys.stderr,
        )


def progress_line(progress: Progress, words: Callable[[int], str]) -> str:
    """Format method, evaluations, rate and best value so far: "brkga: 3,200 evaluations, 8,123/s, best 12.3 ms"."""
    rate = progress.evaluations / progress.seconds if progress.seconds > 0 else 0
    over = progress.bytes_over_limit
    excess = f", {format_bytes(over)} over the memory limit" if over else ""
    return (
        f"{progress.method}: {progress.evaluations:,} evaluations, {rate:,.0f}/s, best {words(progress.best)}{excess}"
    )
