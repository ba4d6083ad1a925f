"""Processes that work for another."""

from __future__ import annotations

import multiprocessing
import os
import threading
from multiprocessing.process import BaseProcess


def end_with_parent() -> None:
    """From now on this process ends when its parent is gone, however that went: nobody would take what a run of hours
    finds."""
    if (parent := multiprocessing.parent_process()) is not None:
        threading.Thread(target=_end_after, args=(parent,), daemon=True).start()


def _end_after(parent: BaseProcess) -> None:
    parent.join()
    os._exit(1)
