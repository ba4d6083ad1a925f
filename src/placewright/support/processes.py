"""Processes that work for another."""

from __future__ import annotations

import multiprocessing
import os


def end_with_parent() -> None:
    """Ends this process when the parent is gone, however it went: nobody would take what a run of hours finds."""
    if (parent := multiprocessing.parent_process()) is not None:
        parent.join()
        os._exit(1)
