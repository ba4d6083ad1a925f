"""The state that the devices of one host share while they run a step."""

from __future__ import annotations

import _thread
from typing import Any


class StoppedError(Exception):
    """Another device failed, or the step was interrupted."""


class Channels:
    """The state that the devices of one program share during a step: a lock for each channel, held while nothing was
    sent, the values sent, and whether the step is to stop."""

    def __init__(self, count: int) -> None:
        self.locks = [_thread.allocate_lock() for _ in range(count)]
        for lock in self.locks:
            lock.acquire()
        self.box: list[Any] = [None] * count
        self.stopped = False

    def stop(self) -> None:
        """Makes every device stop at its next op, and wakes those that wait."""
        self.stopped = True
        for channel, lock in enumerate(self.locks):
            if lock.locked():
                self._release(channel)

    def _release(self, channel: int) -> None:
        try:
            self.locks[channel].release()
        except RuntimeError:  # Another device stops as well, and has done so in between.
            if not self.stopped:
                raise
