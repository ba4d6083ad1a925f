"""Threads that run a job for each device, and Ctrl-C while they do."""

from __future__ import annotations

import _thread
import os
import signal
import sys
import time
from types import FrameType
from typing import Any

import pytest
from waiting import wait_until

from placewright.execution.workers import Workers


def test_ctrl_c_right_after_a_job_has_ended_is_raised_and_the_next_jobs_run() -> None:
    """The caller has taken the lock that the job released; nobody else would release it again."""
    workers = Workers([frozenset(os.sched_getaffinity(0))])
    stopped, ran = list[bool](), list[int]()

    def interrupt(frame: FrameType, event: str, function: Any) -> None:
        if event == "c_return" and function.__name__ == "acquire" and frame.f_code.co_name == "wait":
            sys.setprofile(None)
            raise KeyboardInterrupt

    sys.setprofile(interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            workers.run([lambda: time.sleep(0.05)], lambda: stopped.append(True))
    finally:
        sys.setprofile(None)
    workers.run([lambda: ran.append(1)], lambda: stopped.append(True))
    workers.close()
    assert (stopped, ran) == ([True], [1])


def test_ctrl_c_that_did_not_wake_the_caller_is_seen_while_a_job_runs() -> None:
    """A signal that comes right before the caller sleeps wakes nobody. Here none is sent: it is only marked as come."""
    workers = Workers([frozenset(os.sched_getaffinity(0))])
    seen, stopped = list[int](), list[bool]()

    def interrupted() -> None:
        _thread.interrupt_main()
        wait_until(lambda: bool(seen))

    before = signal.signal(signal.SIGINT, lambda number, _: seen.append(number))
    try:
        workers.run([interrupted], lambda: stopped.append(True))
    finally:
        signal.signal(signal.SIGINT, before)
    workers.close()
    assert (seen, stopped) == ([signal.SIGINT], [])
