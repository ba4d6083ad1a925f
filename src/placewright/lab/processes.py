"""Processes that work for another."""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
from multiprocessing import resource_tracker
from multiprocessing.process import BaseProcess


def end_with_parent() -> None:
    """From now on this process ends when its parent is gone, however that went: nobody would take what a run of hours
    finds."""
    if (parent := multiprocessing.parent_process()) is not None:
        threading.Thread(target=_end_after, args=(parent,), daemon=True).start()


def start_resource_tracker() -> None:
    """Starts the process in which Python frees the semaphores of processes that were killed. It does so without a
    warning of how many there were, which is no news to who killed them."""
    sys.warnoptions.append("ignore:resource_tracker:UserWarning")  # is among the arguments of that process
    try:
        resource_tracker.ensure_running()
    finally:
        sys.warnoptions.pop()


def _end_after(parent: BaseProcess) -> None:
    parent.join()
    os._exit(1)
