"""Threads that run a job for each device, and Ctrl-C while they do."""

from __future__ import annotations

import os
import sys
import time
from types import FrameType
from typing import Any

import pytest

from placewright.execution.workers import Workers


def test_ctrl_c_right_after_a_job_has_ended_is_raised_and_the_next_jobs_run() -> None:
    """When the caller has taken the lock that the job released, nobody releases it again."""
    workers = Workers([frozenset(os.sched_getaffinity(0))], for_torch=False)
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
