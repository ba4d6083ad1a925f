"""Waiting for other processes and threads, however busy the machine is."""

from __future__ import annotations

import time
from collections.abc import Callable

#: What hangs fails in the end; nothing that works comes near it, on a machine as busy as it may be.
PATIENCE_S = 600


def wait_until(condition: Callable[[], bool]) -> None:
    """Looks a hundred times a second."""
    for _ in range(100 * PATIENCE_S):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("waited in vain")
