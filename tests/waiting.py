"""Waiting for other processes and threads, however busy the machine is."""

from __future__ import annotations

import time
from collections.abc import Callable

#: Seconds after which a hang fails; nothing that works comes near it, however busy the machine is.
PATIENCE_S = 600


def wait_until(condition: Callable[[], bool]) -> None:
    """Checks a hundred times a second; raises AssertionError after PATIENCE_S."""
    for _ in range(100 * PATIENCE_S):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("waited in vain")
