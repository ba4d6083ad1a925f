"""What a long command reports on stderr: only where someone watches."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from placewright.cli.printing import is_quiet, is_watched
from placewright.search.run.budget import OnProgress, Progress
from placewright.support.errors import printable
from placewright.support.quantities import format_bytes

#: Called with what is being done now.
Show = Callable[[str], None]


@contextmanager
def staged() -> Iterator[Show]:
    """A line on stderr that says what is being done and is wiped at its end; nothing when stderr is no terminal."""
    if not is_watched():
        yield lambda stage: None
        return
    from rich.console import Console

    console = Console(stderr=True, highlight=False, markup=False)
    with console.status("") as status:
        yield lambda stage: status.update(printable(stage))


@contextmanager
def watched(model: str, words: Callable[[int], str]) -> Iterator[OnProgress | None]:
    """A line on stderr that follows the search and is wiped at its end; None when stderr is no terminal.

    words: the best so far as text.
    """
    with staged() as show:
        show(f"reading {model}")
        yield following(show, words)


def following(show: Show, words: Callable[[int], str]) -> OnProgress | None:
    """Shows how a search gets on; None when stderr is no terminal. words: the best so far as text."""
    return (lambda progress: show(progress_line(progress, words))) if is_watched() else None


def announce_effort(solver: str, time_limit: str | None) -> None:
    """Says on stderr that a solver will take long where nothing limits its time, and what can be done. Raises
    InputError where there is no such solver."""
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
    """Method, evaluations, rate and best so far: "brkga: 3,200 evaluations, 8,123/s, best 12.3 ms"."""
    rate = progress.evaluations / progress.seconds if progress.seconds > 0 else 0
    over = progress.bytes_over_limit
    excess = f", {format_bytes(over)} over the memory limit" if over else ""
    return (
        f"{progress.method}: {progress.evaluations:,} evaluations, {rate:,.0f}/s, best {words(progress.best)}{excess}"
    )
