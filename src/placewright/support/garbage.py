"""A pause of Python's garbage collector, which would otherwise scan millions of records while they are made."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collection_paused() -> Iterator[None]:
    """Pause the search for reference cycles within this context, which also works as a decorator: records hold no
    cycles, and the search in a million takes as long as making them. Other garbage waits until the end."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
